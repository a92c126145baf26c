package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestPlan: items are whole tiles, kc depends on k alone, and a large product
// keeps every goroutine busy to nearly the same moment.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, f := range families {
		for range 500 {
			threads, m, n, k := 1+r.IntN(8), 1+r.IntN(3000), 1+r.IntN(3000), 1+r.IntN(3000)
			p := planFor(f, threads, m, n, k)
			where := fmt.Sprintf("%s, %d threads, %dx%dx%d: %+v", f.name, threads, m, n, k, p)
			if p.rowsPer <= 0 || p.rowsPer%f.mr() != 0 || p.colsPer <= 0 || p.colsPer%f.lanes != 0 {
				t.Fatalf("%s: items are not whole tiles", where)
			}
			if small := p.rowsPer*p.kc <= heldElems; p.colsPer > heldCols || p.colsPer > f.cols && !small {
				t.Fatalf("%s: neither operand of an item fits the cache", where)
			}
			if p.kc < 1 || p.kc > blockSteps || p.kc != planFor(portable, 1, 1, 1, k).kc {
				t.Fatalf("%s: kc does not depend on k alone", where)
			}
			if items := ceilDiv(m, p.rowsPer) * ceilDiv(n, p.colsPer); m*n > 1<<16 && items < threads {
				t.Errorf("%s: %d items", where, items)
			}
		}
	}
	for _, s := range benchShapes[:7] {
		for _, f := range families {
			p := planFor(f, 2, s[0], s[1], s[2])
			one := f.span(1, s[0], s[1], p.rowsPer, p.colsPer)
			if two := f.span(2, s[0], s[1], p.rowsPer, p.colsPer); two > 0.56*one {
				t.Errorf("%s: %v: two threads take %.2f of the time of one: %+v", f.name, s, two/one, p)
			}
		}
	}
}

// TestUpcoming: while the rows of A stay in the cache, the tiles of one panel of B
// ask for each step of the next one, once, but for a rest that a kernel's turns
// do not come to; nobody asks beyond the item, or for what is packed anyway.
func TestUpcoming(t *testing.T) {
	f := fastest
	nr := f.nr()
	const k, p, kc = 100, 20, 70
	g := &gemm{f: f, n: 5 * nr, k: k, plan: plan{kc: kc, rowsPer: 6 * f.mr()}}
	g.b = matrix{data: make([]float32, k*g.n), ld: g.n}
	it := &item{gemm: g, r1: 6 * f.mr(), c0: nr, c1: 4 * nr, p: p, kc: kc}
	asked := func(c1 int) (rows []int) {
		for r := 0; r < it.r1; r += f.mr() {
			it.upcoming(r, c1)
			if it.tile.next == nil {
				continue
			}
			at := len(g.b.data) - len(it.tile.next)
			if at%g.n != c1 || it.tile.nextStep != g.n {
				t.Errorf("column %d, %d apart, want %d, %d apart", at%g.n, it.tile.nextStep, c1, g.n)
			}
			for i := range kc / nextSteps {
				rows = append(rows, at/g.n+i)
			}
		}
		return rows
	}
	var want []int
	for i := range kc / nextSteps * nextSteps {
		want = append(want, p+i)
	}
	if got := asked(2 * nr); !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
	if got := asked(it.c1); got != nil {
		t.Errorf("asks for steps %v beyond the item", got)
	}
	g.b.inner = true
	if got := asked(2 * nr); got != nil {
		t.Errorf("asks for steps %v of what is packed", got)
	}
	g.b.inner, g.rowsPer = false, heldElems
	if got := asked(2 * nr); got != nil {
		t.Errorf("asks for steps %v though the columns of B stay", got)
	}
}

func TestSharedBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for _, limit := range []int{1, 1000, 100000} {
		withSharedLimit(limit, func() {
			for range 200 {
				mr, m, k := 1+r.IntN(8), 1+r.IntN(500), 1+r.IntN(2000)
				kc := planFor(portable, 1, 1, 1, k).kc
				steps, rows := sharedBlock(mr, m, k, kc)
				if steps != k && steps%kc != 0 || rows != m && rows%mr != 0 || steps < 1 || rows < 1 {
					t.Fatalf("limit %d, mr %d, m %d, k %d, kc %d: blocks of %d steps and %d rows", limit, mr, m, k, kc, steps, rows)
				}
				if size := steps * roundUp(rows, mr); size > max(limit+kc*mr, kc*mr) {
					t.Fatalf("limit %d, mr %d, m %d, k %d: %d elements at a time", limit, mr, m, k, size)
				}
			}
		})
	}
}

// TestGemmConcurrent: products that share a pool do not disturb each other.
func TestGemmConcurrent(t *testing.T) {
	p := newTestPool(t, 3)
	r := rand.New(rand.NewPCG(31, 32))
	var callers sync.WaitGroup
	for _, s := range [][3]int{{64, 100, 70}, {100, 64, 300}, {9, 700, 50}, {150, 20, 90}} {
		x := newTestProduct(r, s[0], s[1], s[2])
		want := x.run(nil)
		callers.Go(func() {
			for range 20 {
				got := x.run(p)
				for i := range got {
					if !sameBits(got[i], want[i]) {
						t.Errorf("%v: element %d is %v among others, %v alone", x, i, got[i], want[i])
						return
					}
				}
			}
		})
	}
	callers.Wait()
}
