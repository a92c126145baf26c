package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// withFamily runs a test once for each family that this processor has.
func withFamily(t *testing.T, test func(t *testing.T)) {
	was := fastest
	defer func() { fastest = was }()
	for _, f := range families {
		fastest = f
		t.Run(f.name, test)
	}
}

func randomSlice(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// product is a random product with its strides.
type testProduct struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    float32
	a, b, c        []float32
	lda, ldb, ldc  int
}

func newTestProduct(r *rand.Rand, m, n, k int) *testProduct {
	x := &testProduct{m: m, n: n, k: k, transA: r.IntN(2) > 0, transB: r.IntN(2) > 0, alpha: 1}
	if r.IntN(2) > 0 {
		x.alpha = -0.5
	}
	x.beta = []float32{0, 1, -0.75}[r.IntN(3)]
	operand := func(trans bool, rows, cols int) ([]float32, int) {
		if trans {
			rows, cols = cols, rows
		}
		ld := max(cols, 1) + r.IntN(3)
		return randomSlice(r, max((rows-1)*ld+cols, 0)), ld
	}
	x.a, x.lda = operand(x.transA, m, k)
	x.b, x.ldb = operand(x.transB, k, n)
	x.c, x.ldc = operand(false, m, n)
	if x.beta == 0 {
		for i := range x.m {
			for j := range x.n {
				x.c[i*x.ldc+j] = float32(math.NaN())
			}
		}
	}
	return x
}

func (x *testProduct) String() string {
	return fmt.Sprintf("%dx%dx%d transA %v transB %v alpha %v beta %v", x.m, x.n, x.k, x.transA, x.transB, x.alpha, x.beta)
}

func (x *testProduct) run(p *Pool) []float32 {
	c := append([]float32(nil), x.c...)
	Gemm(p, x.transA, x.transB, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, c, x.ldc)
	return c
}

func (x *testProduct) at(trans bool, data []float32, ld, i, j int) float64 {
	if trans {
		i, j = j, i
	}
	return float64(data[i*ld+j])
}

// check compares C with the product in float64. Rounding moves an element by
// less than k units in the last place of the sum of magnitudes.
func (x *testProduct) check(t *testing.T, got []float32) {
	t.Helper()
	for i := range x.m {
		for j := range x.n {
			var sum, size float64
			for p := range x.k {
				v := x.at(x.transA, x.a, x.lda, i, p) * x.at(x.transB, x.b, x.ldb, p, j)
				sum += v
				size += math.Abs(v)
			}
			at := i*x.ldc + j
			want := float64(x.alpha) * sum
			size *= math.Abs(float64(x.alpha))
			if x.beta != 0 {
				want += float64(x.beta) * float64(x.c[at])
				size += math.Abs(float64(x.beta) * float64(x.c[at]))
			}
			bound := size * float64(x.k+3) * 0x1p-24
			if d := math.Abs(float64(got[at]) - want); !(d <= bound) {
				t.Fatalf("%v: C[%d,%d] = %v, want %v within %v", x, i, j, got[at], want, bound)
			}
		}
	}
	for at := range got {
		if at%x.ldc >= x.n && got[at] != x.c[at] {
			t.Fatalf("%v: wrote outside C at row %d, column %d", x, at/x.ldc, at%x.ldc)
		}
	}
}

func TestGemm(t *testing.T) {
	p := newTestPool(t, 2)
	sizes := []int{0, 1, 2, 3, 5, 8, 9, 17, 33, 48, 49, 65, 100, 250}
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		pick := func() int { return sizes[r.IntN(len(sizes))] }
		for range 300 {
			x := newTestProduct(r, pick(), pick(), pick())
			x.check(t, x.run(p))
		}
		for _, s := range [][3]int{{13, 7, 1000}, {70, 500, 30}, {300, 10, 400}, {1, 300, 500}, {129, 129, 385}} {
			x := newTestProduct(r, s[0], s[1], s[2])
			x.check(t, x.run(p))
		}
	})
}

var benchShapes = [][3]int{{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048},
	{64, 4096, 576}, {32, 65536, 27}, {64, 625, 1152}, {64, 10, 100}}

func BenchmarkGemm(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for _, s := range benchShapes {
			b.Run(fmt.Sprintf("threads=%d/%dx%dx%d", threads, s[0], s[1], s[2]), func(b *testing.B) {
				benchmarkGemm(b, fastest, threads, false, false, s[0], s[1], s[2])
			})
		}
	}
}

func benchmarkGemm(b *testing.B, f *family, threads int, transA, transB bool, m, n, k int) {
	was := fastest
	fastest = f
	defer func() { fastest = was }()
	r := rand.New(rand.NewPCG(1, 2))
	x, y, z := randomSlice(r, m*k), randomSlice(r, k*n), make([]float32, m*n)
	lda, ldb := k, n
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	p := newTestPool(b, threads)
	b.ReportAllocs()
	for b.Loop() {
		Gemm(p, transA, transB, m, n, k, 1, x, lda, y, ldb, 0, z, n)
	}
	b.ReportMetric(2e-9*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
}
