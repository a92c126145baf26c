package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

var sgdSteps = map[string]SGDStep{
	"plain":    {LR: 0.1, Decay: 1e-2, Scale: 0.25},
	"momentum": testSGD,
	"nesterov": {LR: 0.1, Momentum: 0.9, Decay: 1e-2, Scale: 0.25, Nesterov: true},
}

// The step has the bits of the product and of the step one after another, of any size,
// with all edges, and where tiles are not computed at once.
func TestGemmSGD(t *testing.T) {
	p := newTestPool(t, 2)
	sizes := []int{0, 1, 2, 3, 7, 8, 9, 17, 47, 48, 49, 65, 100, 200}
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		pick := func() int { return sizes[r.IntN(len(sizes))] }
		for i := range 150 {
			x := newTestProduct(r, pick(), pick(), pick())
			if i%10 == 0 {
				x = newTestProduct(r, 1+r.IntN(40), 1+r.IntN(1100), 1+r.IntN(30)) // several strips
			}
			if i%10 == 1 {
				x = newTestProduct(r, 1+r.IntN(40), 1+r.IntN(100), blockSteps+r.IntN(60)) // or several blocks of steps
			}
			for name, s := range sgdSteps {
				checkGemmSGD(t, p, r, x, name, s)
			}
		}
	})
}

func checkGemmSGD(t *testing.T, p *Pool, r *rand.Rand, x *testProduct, name string, s SGDStep) {
	t.Helper()
	w, grad := randomSlice(r, x.m*x.n), make([]float32, x.m*x.n)
	var velocity []float32
	if s.Momentum != 0 {
		velocity = randomSlice(r, len(w))
	}
	wantW, wantV := slices.Clone(w), slices.Clone(velocity)
	Gemm(nil, x.transA, x.transB, x.m, x.n, x.k, 1, x.a, x.lda, x.b, x.ldb, 0, grad, max(x.n, 1))
	SGD(wantW, wantV, grad, s)
	for _, pool := range []*Pool{nil, p} {
		gotW, gotV := slices.Clone(w), slices.Clone(velocity)
		GemmSGD(pool, x.transA, x.transB, x.m, x.n, x.k, x.a, x.lda, x.b, x.ldb, gotW, gotV, s)
		if at := firstApart(gotW, wantW); at >= 0 {
			t.Fatalf("%v, %s, %d threads: weight %d is %v, want %v", x, name, pool.Threads(), at, gotW[at], wantW[at])
		}
		if at := firstApart(gotV, wantV); at >= 0 {
			t.Fatalf("%v, %s, %d threads: velocity %d is %v, want %v", x, name, pool.Threads(), at, gotV[at], wantV[at])
		}
	}
}

func firstApart(got, want []float32) int {
	for i := range want {
		if !sameBits(got[i], want[i]) {
			return i
		}
	}
	return -1
}

// Every tile's weights are asked for by the tile two before it, in the order in which
// they are computed, and nothing outside of the item.
func TestAskAhead(t *testing.T) {
	f := fastest
	mr, nr := f.mr(), f.nr()
	for _, size := range [][2]int{{5 * mr, 4 * nr}, {3*mr + 1, nr}, {2 * mr, 2*nr + 1}, {mr, nr}} {
		m, n := size[0], size[1]
		g := &gemm{f: f, m: m, n: n}
		g.descent = descent{w: make([]float32, m*n), velocity: make([]float32, m*n), step: testSGD}
		it := &item{gemm: g, r1: m, c1: n}
		var tiles, asked []int
		for r := 0; r < m; r += mr {
			for c := 0; c < n; c += nr {
				tiles = append(tiles, r*n+c)
				it.askAhead(r, c)
				if it.tile.next == nil {
					continue
				}
				at := m*n - len(it.tile.next)
				if m*n-len(it.tile.beside) != at || it.tile.nextStep != n {
					t.Errorf("%v: velocities at %d, rows %d apart, want %d and %d", size, m*n-len(it.tile.beside), it.tile.nextStep, at, n)
				}
				asked = append(asked, at)
			}
		}
		if want := tiles[min(tilesAhead, len(tiles)):]; !slices.Equal(asked, want) {
			t.Errorf("%v: asked for %v, want %v", size, asked, want)
		}
	}
}

func TestGemmSGDAllocatesNothing(t *testing.T) {
	const m, n = 100, 500
	a, b := make([]float32, 400*m), make([]float32, 400*n)
	w, v := make([]float32, m*n), make([]float32, m*n)
	for _, k := range []int{20, 400} {
		run := func() { GemmSGD(nil, true, false, m, n, k, a, m, b, n, w, v, testSGD) }
		if got := steady.Bytes(10, run); got >= 4*m {
			t.Errorf("%d steps: %d bytes allocated", k, got)
		}
	}
}

func TestGemmSGDPanics(t *testing.T) {
	x, y := make([]float32, 4), make([]float32, 3)
	run := func(m int, a, b, w, v []float32) func() {
		return func() { GemmSGD(nil, true, false, m, 2, 2, a, 2, b, 2, w, v, testSGD) }
	}
	for name, f := range map[string]func(){
		"negative size: m=-1": run(-1, x, x, x, x),
		"A is 2x2":            run(2, y, x, x, x),
		"B is 2x2":            run(2, x, y, x, x),
		"the weights has 3":   run(2, x, x, y, x),
		"the velocity has 3":  run(2, x, x, x, y),
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, name) {
			t.Errorf("panic %q, want %q", got, name)
		}
	}
}

// BenchmarkUpdate is what a worker does to one copy of a 4096x4096 layer, (8,6), at an
// update with a batch of 64.
func BenchmarkUpdate(b *testing.B) {
	const m, n, k = 683, 4096, 64
	const apart = 512
	r := rand.New(rand.NewPCG(43, 44))
	x, y, grad := randomSlice(r, k*m), randomSlice(r, k*n), make([]float32, m*n)
	w, v := make([]float32, m*n), make([]float32, apart+m*n)[apart:]
	report := func(b *testing.B) { b.ReportMetric(2*m*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s") }
	b.Run("apart/683x4096x64", func(b *testing.B) {
		for b.Loop() {
			Gemm(nil, true, false, m, n, k, 1, x, m, y, n, 0, grad, n)
			SGD(w, v, grad, testSGD)
		}
		report(b)
	})
	b.Run("together/683x4096x64", func(b *testing.B) {
		for b.Loop() {
			GemmSGD(nil, true, false, m, n, k, x, m, y, n, w, v, testSGD)
		}
		report(b)
	})
}
