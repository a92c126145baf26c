package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// odd are values on which kernels disagree if they are careless.
var odd = []float32{0, float32(math.Copysign(0, -1)), nan, inf, -inf, 1e-45, -1e-45, math.MaxFloat32}

// testVector returns n random values, some of them odd, inside a longer array at
// an address that is not aligned. The elements around them are NaN, which spread
// if they are read, and are found if they are written.
func testVector(r *rand.Rand, n int, special bool) (x, around []float32) {
	around = randomSlice(r, n+40)
	for i := range around {
		if i < 5 || i >= n+5 {
			around[i] = nan
		}
	}
	x = around[5 : n+5]
	for i := range x {
		if special && r.IntN(4) == 0 {
			x[i] = odd[r.IntN(len(odd))]
		}
	}
	return x, around
}

func wroteAround(around []float32, n int) bool {
	for i, v := range around {
		if (i < 5 || i >= n+5) && v == v {
			return true
		}
	}
	return false
}

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// elementTest is a kernel as a function of one element of each of its arrays,
// those it writes first, in float64.
type elementTest struct {
	name   string
	arrays int
	outs   int
	run    func(x [][]float32)
	plain  func(x [][]float32) // in Go
	want   func(x []float64) []float64
}

func elementTests() []elementTest {
	return []elementTest{
		{"Add", 3, 1, func(x [][]float32) { Add(x[0], x[1], x[2]) },
			func(x [][]float32) { addGo(x[0], x[1], x[2]) },
			func(x []float64) []float64 { return []float64{x[1] + x[2]} }},
		{"Scale", 2, 1, func(x [][]float32) { Scale(x[0], 0.3, x[1]) },
			func(x [][]float32) { scaleGo(x[0], 0.3, x[1]) },
			func(x []float64) []float64 { return []float64{float64(float32(0.3)) * x[1]} }},
		{"Axpy", 2, 1, func(x [][]float32) { Axpy(x[0], 0.3, x[1]) },
			func(x [][]float32) { axpyGo(x[0], 0.3, x[1]) },
			func(x []float64) []float64 { return []float64{x[0] + float64(float32(0.3))*x[1]} }},
		{"ReLU", 2, 1, func(x [][]float32) { ReLU(x[0], x[1]) },
			func(x [][]float32) { reluGo(x[0], x[1]) },
			func(x []float64) []float64 { return []float64{max(x[1], 0)} }},
		{"ReLUBackward", 3, 1, func(x [][]float32) { ReLUBackward(x[0], x[1], x[2]) },
			func(x [][]float32) { reluBackwardGo(x[0], x[1], x[2]) },
			func(x []float64) []float64 {
				if x[2] <= 0 {
					return []float64{0}
				}
				return []float64{x[1]}
			}},
		{"AddBiasReLU", 2, 1, func(x [][]float32) { AddBiasReLU(x[0], len(x[0]), 1, x[1]) },
			func(x [][]float32) { addReLUGo(x[0], x[0], x[1]) },
			func(x []float64) []float64 { return []float64{max(x[0]+x[1], 0)} }},
		{"AddBias", 2, 1, func(x [][]float32) { AddBias(x[0], len(x[0]), 1, x[1]) },
			func(x [][]float32) { addGo(x[0], x[0], x[1]) },
			func(x []float64) []float64 { return []float64{x[0] + x[1]} }},
	}
}

// TestElementwise compares each kernel with float64, and to the bit with Go.
func TestElementwise(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, test := range append(elementTests(), optimTests()...) {
			t.Run(test.name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 4))
				for n := range 150 {
					test.check(t, r, n, n%2 > 0)
				}
				test.check(t, r, 5000, true)
			})
		}
	})
}

func (test elementTest) check(t *testing.T, r *rand.Rand, n int, special bool) {
	var got, plain, before, arounds [][]float32
	for i := range test.arrays {
		x, around := testVector(r, n, special)
		arounds = append(arounds, around)
		if slices.Contains(meanSquares[test.name], i) {
			for j, v := range x {
				x[j] = max(v, -v)
			}
		}
		got = append(got, x)
		plain = append(plain, append([]float32(nil), x...))
		before = append(before, append([]float32(nil), x...))
	}
	test.run(got)
	for i, around := range arounds {
		if wroteAround(around, n) {
			t.Fatalf("n %d: wrote outside array %d", n, i)
		}
	}
	test.plain(plain)
	for j := range n {
		in, size := make([]float64, test.arrays), 0.0
		for i := range in {
			in[i] = float64(before[i][j])
			size = max(size, math.Abs(in[i]))
		}
		want := test.want(in)
		for i := range test.arrays {
			if i >= test.outs {
				want = append(want, in[i])
			}
			if !sameBits(got[i][j], plain[i][j]) {
				t.Fatalf("n %d: array %d[%d] = %v, in Go %v, from %v", n, i, j, got[i][j], plain[i][j], in)
			}
			if d := math.Abs(float64(got[i][j]) - want[i]); !special && !(d <= 1e-6*max(size, 1)) {
				t.Fatalf("n %d: array %d[%d] = %v, want %v, from %v", n, i, j, got[i][j], want[i], in)
			}
		}
	}
}

func TestNaNAndSignsOfReLU(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, n := range []int{1, 16, 33} { // the odd value in the tail and in whole vectors
			x, dst := make([]float32, n), make([]float32, n)
			for _, c := range []struct{ in, relu, backward float32 }{
				{nan, nan, 5}, {0, 0, 0}, {-1, 0, 0}, {2, 2, 5}, {inf, inf, 5}, {-inf, 0, 0},
			} {
				for i := range x {
					x[i] = c.in
				}
				if ReLU(dst, x); !sameBits(dst[n-1], c.relu) {
					t.Errorf("ReLU(%v) = %v, want %v", c.in, dst[n-1], c.relu)
				}
				dy := make([]float32, n)
				for i := range dy {
					dy[i] = 5
				}
				if ReLUBackward(dst, dy, x); !sameBits(dst[n-1], c.backward) {
					t.Errorf("gradient at %v is %v, want %v", c.in, dst[n-1], c.backward)
				}
			}
		}
	})
}

func TestVectorPanics(t *testing.T) {
	x, y := make([]float32, 4), make([]float32, 5)
	rows := [][]float32{x, y[:3]}
	for name, f := range map[string]func(){
		"add: a has 5":                       func() { Add(x, y, x) },
		"add: b has 5":                       func() { Add(x, x, y) },
		"scale: x has 5":                     func() { Scale(x, 1, y) },
		"axpy: x has 5":                      func() { Axpy(x, 1, y) },
		"relu: x has 5":                      func() { ReLU(x, y) },
		"relu backward: dy has 5":            func() { ReLUBackward(x, y, x) },
		"relu backward: y has 5":             func() { ReLUBackward(x, x, y) },
		"dot: b has 5":                       func() { Dot(x, y) },
		"combine: 1 weights for 2 inputs":    func() { Combine(x, y[:1], rows) },
		"combine: input 1 has 3":             func() { Combine(x, y[:2], rows) },
		"weights of 1 sums for 2":            func() { CombineAll(nil, rows, 3, [][]float64{{1}}, rows[:1], 3, 1, 3) },
		"combine all: 1 weights of sum 0":    func() { CombineAll(nil, rows[:1], 3, [][]float64{{1}}, rows, 3, 1, 3) },
		"combine all: destination 0 has 4":   func() { CombineAll(nil, rows[:1], 3, [][]float64{{1}}, rows[:1], 2, 2, 2) },
		"combine all: input 1 has 3":         func() { CombineAll(nil, [][]float32{y}, 3, [][]float64{{1, 0}}, rows, 2, 2, 2) },
		"add bias: the destination has 4":    func() { AddBias(x, 2, 2, y[:3]) },
		"add bias and relu: the destination": func() { AddBiasReLU(x, 2, 3, y[:2]) },
		"column sums: x has 4":               func() { ColumnSums(y[:2], x, 3, 2) },
		"stride -1":                          func() { ColumnSums(y[:2], x, -1, 2) },
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, name) {
			t.Errorf("panic %q, want %q", got, name)
		}
	}
}

func BenchmarkVectors(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	var x [8][]float32
	for i := range x {
		x[i] = randomSlice(r, n)
	}
	w := []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}
	two := [][]float64{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}
	var sink float32
	for _, bench := range []struct {
		name   string
		arrays int // read or written
		run    func()
	}{
		{"Add", 3, func() { Add(x[0], x[1], x[2]) }},
		{"Axpy", 3, func() { Axpy(x[0], 0, x[1]) }},
		{"ReLU", 2, func() { ReLU(x[0], x[1]) }},
		{"Sum", 1, func() { sink += Sum(x[1]) }},
		{"Dot", 2, func() { sink += Dot(x[1], x[2]) }},
		{"MaxAbs", 1, func() { sink += MaxAbs(x[1]) }},
		{"Combine6", 7, func() { Combine(x[0], w, x[1:7]) }},
		{"CombineAll2x6/8192x104", 8, func() { CombineAll(nil, x[:2], 128, two, x[2:8], 104, 8192, 104) }},
		{"ColumnSums/1024x1024", 1, func() { ColumnSums(x[0][:1024], x[1], 1024, 1024) }},
		{"ColumnSums/16384x64", 1, func() { ColumnSums(x[0][:64], x[1], 64, 16384) }},
	} {
		b.Run(bench.name+"/n=1M", func(b *testing.B) {
			b.SetBytes(int64(4 * n * bench.arrays))
			b.ReportAllocs()
			for b.Loop() {
				bench.run()
			}
		})
	}
	_ = sink
}
