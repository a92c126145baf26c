package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// Computed the other way round, a product has the same bits, and nothing beside it is
// written.
func TestGemmTurned(t *testing.T) {
	p := newTestPool(t, 2)
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(51, 52))
		for i := range 60 {
			x := newTestProduct(r, 1+r.IntN(70), 1+r.IntN(600), 1+r.IntN(100))
			if i%10 == 0 {
				x = newTestProduct(r, 1+r.IntN(70), 1+r.IntN(70), blockSteps+r.IntN(500)) // several blocks of steps
			}
			x.alone(r)
			want := x.gemm()
			want.run(nil)
			for _, pool := range []*Pool{nil, p} {
				got := x.gemm()
				got.turn(pool)
				if at := firstApart(got.c, want.c); at >= 0 {
					t.Fatalf("%v, %d threads: element %d is %v, want %v", x, pool.Threads(), at, got.c[at], want.c[at])
				}
			}
		}
	})
}

// Gemm does so for a layer of few samples.
func TestGemmOfFewRows(t *testing.T) {
	p := newTestPool(t, 2)
	withFamily(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(53, 54))
		x := newTestProduct(r, 37, 175, 400)
		x.alone(r)
		if g := x.gemm(); !g.turns(2) {
			t.Fatalf("%v is not computed the other way round", x)
		}
		x.check(t, x.run(nil))
		x.check(t, x.run(p))
	})
}

// gemm is the product, with a result of its own.
func (x *testProduct) gemm() *gemm {
	return &gemm{
		m: x.m, n: x.n, k: x.k, alpha: x.alpha, c: slices.Clone(x.c), ldc: x.ldc,
		a: matrix{x.a, x.lda, true}, b: matrix{x.b, x.ldb, true},
	}
}

// alone makes the product that of a matrix and the transpose of another, added to
// nothing that counts.
func (x *testProduct) alone(r *rand.Rand) {
	x.transA, x.transB, x.beta = false, true, 0
	x.lda, x.ldb = x.k+r.IntN(3), x.k+r.IntN(3)
	x.a, x.b = randomSlice(r, (x.m-1)*x.lda+x.k), randomSlice(r, (x.n-1)*x.ldb+x.k)
}

// Products are computed the other way round if that can be done to the bit, and if
// packing the few rows is less work than packing the many.
func TestTurns(t *testing.T) {
	row := matrix{inner: true}
	good := gemm{m: 64, n: 171, k: 4096, a: row, b: row}
	with := func(change func(g *gemm)) *gemm {
		g := good
		change(&g)
		return &g
	}
	for _, c := range []struct {
		name    string
		g       *gemm
		threads int
		want    bool
	}{
		{"few rows", &good, 1, true},
		{"as many threads as pay", with(func(g *gemm) { g.n = 256 }), 2, true},
		{"more threads", &good, 2, false},
		{"as many rows", with(func(g *gemm) { g.m = 100 }), 1, false},
		{"added to something", with(func(g *gemm) { g.beta = 1 }), 1, false},
		{"columns of A", with(func(g *gemm) { g.a.inner = false }), 1, false},
		{"rows of B", with(func(g *gemm) { g.b.inner = false }), 1, false},
		{"one row", with(func(g *gemm) { g.m = 1 }), 1, false},
		{"few steps", with(func(g *gemm) { g.k = 50 }), 1, false},
		{"a large result", with(func(g *gemm) { g.n = mostTurned }), 1, false},
	} {
		if got := c.g.turns(c.threads); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTurnedAllocatesNothing(t *testing.T) {
	const m, n, k = 40, 400, 300
	a, b, c := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	if got := steady.Bytes(10, func() { Gemm(nil, false, true, m, n, k, 1, a, k, b, k, 0, c, n) }); got >= 4*m {
		t.Errorf("%d bytes allocated", got)
	}
}

// Tiles of whole vectors cover the columns, as few as can be; of few columns they are
// about equal.
func TestEvenTiles(t *testing.T) {
	for _, f := range families {
		for cols := 1; cols < 6*f.nr(); cols++ {
			wide := f.even(cols)
			if wide < f.lanes || wide > f.nr() || wide%f.lanes != 0 {
				t.Fatalf("%s: %d columns in tiles of %d", f.name, cols, wide)
			}
			if tiles, least := ceilDiv(cols, wide), ceilDiv(cols, f.nr()); tiles != least {
				t.Errorf("%s: %d columns in %d tiles, %d would do", f.name, cols, tiles, least)
			}
			if cols >= 4*f.nr() && wide != f.nr() {
				t.Errorf("%s: %d columns in tiles of %d", f.name, cols, wide)
			}
		}
		if got := f.even(f.nr() + f.lanes); f.vecs > 2 && got != 2*f.lanes {
			t.Errorf("%s: %d columns in tiles of %d, want %d", f.name, f.nr()+f.lanes, got, 2*f.lanes)
		}
	}
}
