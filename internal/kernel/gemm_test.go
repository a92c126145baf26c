package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
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
	sizes := []int{0, 1, 2, 3, 5, 8, 9, 17, 33, 48, 49, 65, 100}
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		pick := func() int { return sizes[r.IntN(len(sizes))] }
		for range 150 {
			x := newTestProduct(r, pick(), pick(), pick())
			x.check(t, x.run(p))
		}
		for _, s := range [][3]int{{13, 7, 1000}, {20, 500, 30}, {300, 10, 60}, {1, 300, 400}, {65, 60, 385}} {
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

// withSharedLimit runs a test with another limit of packed memory.
func withSharedLimit(limit int, test func()) {
	was := sharedLimit
	defer func() { sharedLimit = was }()
	sharedLimit = limit
	test()
}

// TestGemmInPieces packs A in several pieces of rows and of steps.
func TestGemmInPieces(t *testing.T) {
	p := newTestPool(t, 2)
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		x := newTestProduct(r, 45, 60, 900)
		x.transA = true
		x.a, x.lda = randomSlice(r, 900*46), 46
		whole := x.run(p)
		x.check(t, whole)
		for _, limit := range []int{1, 5000, 12000, 20000} {
			withSharedLimit(limit, func() {
				compareBits(t, x, fmt.Sprint("limit ", limit), x.run(p), whole)
			})
		}
	})
}

func compareBits(t *testing.T, x *testProduct, name string, got, want []float32) {
	t.Helper()
	for i := range got {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%v: %s: C[%d,%d] = %v, want the bits of %v", x, name, i/x.ldc, i%x.ldc, got[i], want[i])
		}
	}
}

var threadedShapes = [][3]int{{64, 300, 70}, {200, 30, 400}, {33, 1100, 27}, {60, 157, 400}, {7, 500, 400}, {700, 16, 30}}

// TestGemmThreads: the number of threads does not change a bit.
func TestGemmThreads(t *testing.T) {
	pools := []*Pool{newTestPool(t, 2), newTestPool(t, 3), newTestPool(t, 7)}
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, s := range threadedShapes {
			for range 2 {
				x := newTestProduct(r, s[0], s[1], s[2])
				want := x.run(nil)
				for _, p := range pools {
					compareBits(t, x, fmt.Sprintf("%d threads", p.Threads()), x.run(p), want)
				}
			}
		}
	})
}

// TestGemmFamiliesAgree: the kernels in assembly give the same bits.
func TestGemmFamiliesAgree(t *testing.T) {
	was := fastest
	defer func() { fastest = was }()
	r := rand.New(rand.NewPCG(17, 18))
	for range 60 {
		x := newTestProduct(r, 1+r.IntN(70), 1+r.IntN(150), 1+r.IntN(900))
		var first []float32
		for _, f := range families[1:] {
			fastest = f
			if got := x.run(nil); first == nil {
				first = got
			} else {
				compareBits(t, x, f.name, got, first)
			}
		}
	}
}

// TestGemmPlace: an element has the same bits in a part of C as in the whole.
func TestGemmPlace(t *testing.T) {
	p := newTestPool(t, 2)
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		for range 40 {
			x := newTestProduct(r, 2+r.IntN(60), 2+r.IntN(150), 1+r.IntN(700))
			whole := x.run(p)
			i, j := r.IntN(x.m), r.IntN(x.n)
			part := *x
			part.m, part.n = 1+r.IntN(x.m-i), 1+r.IntN(x.n-j)
			part.a, part.b, part.c = x.a[i*x.lda:], x.b[j:], x.c[i*x.ldc+j:]
			if x.transA {
				part.a = x.a[i:]
			}
			if x.transB {
				part.b = x.b[j*x.ldb:]
			}
			got := part.run(nil)
			for u := range part.m {
				for v := range part.n {
					if a, b := got[u*x.ldc+v], whole[(i+u)*x.ldc+j+v]; !sameBits(a, b) {
						t.Fatalf("%v: C[%d,%d] is %v alone and %v in the whole", x, i+u, j+v, a, b)
					}
				}
			}
		}
	})
}

func TestGemmSpecialValues(t *testing.T) {
	withFamily(t, func(t *testing.T) {
		c := []float32{nan, 1, 2, 3}
		Gemm(nil, false, false, 2, 2, 0, 1, nil, 1, nil, 2, 0, c, 2)
		if fmt.Sprint(c) != "[0 0 0 0]" {
			t.Errorf("k = 0, beta = 0: %v", c)
		}
		Gemm(nil, false, false, 0, 2, 1, 1, nil, 1, c, 2, 0, nil, 2)
		c = []float32{2, 4, 6, 8}
		Gemm(nil, false, false, 2, 2, 1, 0, []float32{nan, nan}, 1, []float32{nan, nan}, 2, 0.5, c, 2)
		if fmt.Sprint(c) != "[1 2 3 4]" {
			t.Errorf("alpha = 0, beta = 0.5: %v", c)
		}
		Gemm(nil, false, false, 2, 2, 1, 1, []float32{nan, 1}, 1, []float32{1, inf}, 2, 0, c, 2)
		if c[0] == c[0] || c[1] == c[1] || c[2] != 1 || c[3] != inf {
			t.Errorf("NaN and infinity: %v, want [NaN NaN 1 +Inf]", c)
		}
		minus := float32(math.Copysign(0, -1))
		c = []float32{nan}
		Gemm(nil, false, false, 1, 1, 1, 1, []float32{2}, 1, []float32{3}, 1, minus, c, 1)
		if c[0] != 6 {
			t.Errorf("beta = -0 reads C: %v", c[0])
		}
	})
}

func TestGemmPanics(t *testing.T) {
	x := make([]float32, 12)
	const huge = math.MaxInt / 2
	for name, f := range map[string]func(){
		"negative size: m=-1 n=3 k=4":                               func() { Gemm(nil, false, false, -1, 3, 4, 1, x, 4, x, 3, 0, x, 3) },
		"A is 3x4 with row stride 5 but has only 12":                func() { Gemm(nil, false, false, 3, 3, 4, 1, x, 5, x, 3, 0, x, 3) },
		"A is 4x3 but its row stride is 2":                          func() { Gemm(nil, true, false, 3, 3, 4, 1, x, 2, x, 3, 0, x, 3) },
		"B is 4x3 with row stride 3 but has only 11":                func() { Gemm(nil, false, false, 3, 3, 4, 1, x, 4, x[:11], 3, 0, x, 3) },
		"B is 3x4 but its row stride is 3":                          func() { Gemm(nil, false, true, 3, 3, 4, 1, x, 4, x, 3, 0, x, 3) },
		"C is 3x3 with row stride 3 but has only 8":                 func() { Gemm(nil, false, false, 3, 3, 4, 1, x, 4, x, 3, 0, x[:8], 3) },
		"C is 3x3 but its row stride is 0":                          func() { Gemm(nil, false, false, 3, 3, 4, 1, x, 4, x, 3, 0, x, 0) },
		"C is 3x3 but its row stride is -3":                         func() { Gemm(nil, false, false, 3, 3, 4, 1, x, 4, x, 3, 0, x, -3) },
		fmt.Sprintf("C is %dx3 with row stride 4 but has", huge):    func() { Gemm(nil, false, false, huge, 3, 0, 1, x, 4, x, 3, 0, x, 4) },
		fmt.Sprintf("A is 3x4 with row stride %d but has", huge):    func() { Gemm(nil, false, false, 3, 3, 4, 1, x, huge, x, 3, 0, x, 3) },
		fmt.Sprintf("C is 1x%d with row stride %d but", huge, huge): func() { Gemm(nil, false, false, 1, huge, 1, 1, x, 1, x, huge, 0, x, huge) },
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, "kernel: gemm: "+name) {
			t.Errorf("panic %q, want %q", got, name)
		}
	}
}

// TestTileBounds: no tile that leaves a slice reaches a kernel.
func TestTileBounds(t *testing.T) {
	for _, f := range families {
		h, w := f.mr(), f.nr()
		good := func() *tile {
			return &tile{k: 5, a: make([]float32, 5*h), ars: 1, acs: h, b: make([]float32, 5*w), bs: w,
				keep: make([]float32, 5*w), c: make([]float32, h*w), ldc: w, rows: h, cols: w, alpha: 1}
		}
		if v := catch(func() { f.multiply(good()) }); v != nil {
			t.Fatalf("%s: good tile: %v", f.name, v)
		}
		for i, spoil := range []func(t *tile){
			func(t *tile) { t.k = 0 }, func(t *tile) { t.k = 6 },
			func(t *tile) { t.rows = 0 }, func(t *tile) { t.rows = h + 1 },
			func(t *tile) { t.cols = 0 }, func(t *tile) { t.cols = w + 1 },
			func(t *tile) { t.a = t.a[1:] }, func(t *tile) { t.ars = 2 }, func(t *tile) { t.acs = -1 },
			func(t *tile) { t.b = t.b[1:] }, func(t *tile) { t.bs = -w },
			func(t *tile) { t.c = t.c[1:] }, func(t *tile) { t.ldc = w + 1 },
			func(t *tile) { t.keep = t.keep[1:] },
		} {
			x := good()
			spoil(x)
			if catch(func() { f.multiply(x) }) == nil {
				t.Errorf("%s: bad tile %d was run", f.name, i)
			}
		}
	}
}

func TestGemmAllocatesNothing(t *testing.T) {
	for _, threads := range []int{1, 2} {
		p := newTestPool(t, threads)
		r := rand.New(rand.NewPCG(23, 24))
		for _, s := range [][3]int{{64, 10, 100}, {100, 1100, 50}, {128, 128, 128}} {
			x := newTestProduct(r, s[0], s[1], s[2])
			c := make([]float32, len(x.c))
			once := func() {
				Gemm(p, x.transA, x.transB, x.m, x.n, x.k, 1, x.a, x.lda, x.b, x.ldb, 0, c, x.ldc)
			}
			for range 10 { // enough to fill the free lists on both goroutines
				once()
			}
			if got := steady.Allocs(20, once); got > 0 {
				t.Errorf("%d threads: %v: %v allocations", threads, x, got)
			}
		}
	}
}
