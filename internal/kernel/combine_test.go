package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// combineCase is a CombineAll with the memory around its results.
type combineCase struct {
	dst, around    [][]float32
	ldd            int
	w              [][]float64
	xs             [][]float32
	ldx            int
	rows, cols     int
	before, wanted [][]float32
}

// newCombineCase draws a case. Weights of sum s are 0 where s+i is a multiple of
// sparse, so that the sums have different inputs; 0 leaves no weight out. With odd,
// some elements are.
func newCombineCase(r *rand.Rand, sums, inputs, rows, cols, sparse int, odd bool) *combineCase {
	c := &combineCase{ldd: cols + r.IntN(4), ldx: cols + r.IntN(4), rows: rows, cols: cols}
	for range inputs {
		x, _ := testVector(r, max((rows-1)*c.ldx+cols, 0), odd)
		c.xs = append(c.xs, x)
	}
	for s := range sums {
		d, around := testVector(r, rows*c.ldd, false)
		c.dst, c.around, c.before = append(c.dst, d), append(c.around, around), append(c.before, slices.Clone(d))
		row := make([]float64, inputs)
		for i := range row {
			if row[i] = float64(r.IntN(19) - 9); sparse > 0 && (s+i)%sparse == 0 {
				row[i] = 0
			}
		}
		c.w = append(c.w, row)
	}
	return c
}

func (c *combineCase) run(p *Pool) {
	CombineAll(p, c.dst, c.ldd, c.w, c.xs, c.ldx, c.rows, c.cols)
}

// check compares with the sum in index order, rounded step by step, to the bit:
// that order is the contract.
func (c *combineCase) check(t *testing.T) {
	t.Helper()
	where := fmt.Sprintf("%d sums of %d inputs, %dx%d", len(c.dst), len(c.xs), c.rows, c.cols)
	for s, d := range c.dst {
		if wroteAround(c.around[s], len(d)) {
			t.Fatalf("%s: wrote outside of sum %d", where, s)
		}
		for at, got := range d {
			want, i, j := c.before[s][at], at/c.ldd, at%c.ldd
			if j < c.cols {
				want = combined(c.w[s], c.xs, i*c.ldx+j)
			}
			if !sameBits(got, want) {
				t.Fatalf("%s: sum %d [%d,%d] = %v, want %v", where, s, i, j, got, want)
			}
		}
	}
}

func combined(w []float64, xs [][]float32, at int) float32 {
	var sum float32
	first := true
	for i, x := range xs {
		if w[i] == 0 {
			continue
		}
		if term := float32(float32(w[i]) * x[at]); first {
			sum, first = term, false
		} else {
			sum += term
		}
	}
	return sum
}

func TestCombineAll(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for sums := range 10 {
			for _, inputs := range []int{0, 1, 2, 6, 11} {
				for _, rows := range []int{0, 1, 3} {
					for _, cols := range []int{0, 1, 7, 16, 31, 64, 129, 300} {
						c := newCombineCase(r, sums, inputs, rows, cols, r.IntN(4), false)
						c.run(nil)
						c.check(t)
					}
				}
			}
		}
		for cols := range 71 {
			for _, sums := range []int{1, 2, 4, 7} {
				c := newCombineCase(r, sums, 3, 1, cols, 0, true)
				c.run(nil)
				c.check(t)
			}
		}
	})
}

// TestCombineAllExact: small integers are summed exactly.
func TestCombineAllExact(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		c := newCombineCase(r, 6, 5, 2, 70, 0, false)
		for _, x := range c.xs {
			for i := range x {
				x[i] = float32(r.IntN(2001) - 1000)
			}
		}
		c.run(nil)
		for s, d := range c.dst {
			for at := range c.rows * c.ldd {
				i, j := at/c.ldd, at%c.ldd
				if j >= c.cols {
					continue
				}
				want := 0.0
				for k, x := range c.xs {
					want += c.w[s][k] * float64(x[i*c.ldx+j])
				}
				if float64(d[at]) != want {
					t.Fatalf("sum %d [%d,%d] = %v, want %v", s, i, j, d[at], want)
				}
			}
		}
	})
}

// TestCombineAllTiles: tiles that are copied, several of them and several parts,
// with results that bypass the caches and at all alignments, by 1 to 3 goroutines.
func TestCombineAllTiles(t *testing.T) {
	pools := []*Pool{nil, NewPool(2), NewPool(3)}
	defer func() {
		for _, p := range pools {
			p.Close()
		}
	}()
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, shape := range [][2]int{{1, combinePart + packedTile + 37}, {3, packedTile + 1}, {combinePart/65 + 9, 65}} {
			for i, p := range pools {
				c := newCombineCase(r, 13+i, cacheWays+1, shape[0], shape[1], 0, true)
				c.run(p)
				c.check(t)
			}
		}
		// Four sums whose results bypass the caches, and one aligned otherwise.
		c := newCombineCase(r, 5, 2, 1, combineStream/4/7+1, 0, false)
		c.w = [][]float64{{1, 2}, {-3, 1}, {2, 2}, {1, -1}, {0, 1}}
		size := len(c.dst[4])
		c.around[4] = append(make([]float32, 1, len(c.around[4])+1), c.around[4]...)[1:]
		c.dst[4] = c.around[4][5 : size+5]
		c.run(pools[1])
		c.check(t)
	})
}

// TestCombineAllLeavesOut: what has weight 0 is not read, and is read otherwise.
func TestCombineAllLeavesOut(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		one, bad := make([]float32, 20), make([]float32, 20)
		for i := range one {
			one[i], bad[i] = 1, nan
		}
		dst := [][]float32{make([]float32, 20), make([]float32, 20), make([]float32, 20)}
		CombineAll(nil, dst, 20, [][]float64{{2, 0}, {1, 1}, {0, 0}}, [][]float32{one, bad}, 20, 1, 20)
		for i := range one {
			if dst[0][i] != 2 || dst[1][i] == dst[1][i] || dst[2][i] != 0 {
				t.Fatalf("element %d: %v, %v, %v, want 2, NaN, 0", i, dst[0][i], dst[1][i], dst[2][i])
			}
		}
	})
}

func TestCombine(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, inputs := range []int{0, 1, 2, 5} {
			for _, n := range []int{0, 1, 15, 16, 100, 129, 300} {
				c := newCombineCase(r, 1, inputs, 1, n, 0, true)
				w := make([]float32, inputs)
				for i := range w {
					c.w[0][i] = float64(i + 1)
					w[i] = float32(i + 1)
				}
				Combine(c.dst[0][:n], w, c.xs)
				c.check(t)
				if inputs > 0 { // the result may be the first input
					want := slices.Clone(c.dst[0][:n])
					Combine(c.xs[0][:n], w, c.xs)
					for i, v := range want {
						if !sameBits(c.xs[0][i], v) {
							t.Fatalf("%d inputs, %d elements: in place [%d] = %v, want %v", inputs, n, i, c.xs[0][i], v)
						}
					}
				}
			}
		}
	})
}

func TestCombineAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	p := NewPool(2)
	defer p.Close()
	direct := newCombineCase(r, 5, 3, 9, combinePart/4, 2, false)
	packed := newCombineCase(r, 12, cacheWays+1, 1, combinePart+1, 0, false)
	if n := steady.Allocs(5, func() { direct.run(p); packed.run(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	x, w := [][]float32{make([]float32, 50)}, []float32{1}
	if n := steady.Allocs(5, func() { Combine(x[0], w, x) }); n != 0 {
		t.Errorf("Combine: %v allocations", n)
	}
}

func BenchmarkCombineAll(b *testing.B) {
	for _, nk := range [][2]int{{8, 6}, {20, 16}} {
		n, k := nk[0], nk[1]
		b.Run(fmt.Sprintf("n=%d/k=%d/64MiB", n, k), func(b *testing.B) {
			size := 16 << 20 / k
			var dst, xs [][]float32
			var w [][]float64
			for range k {
				xs = append(xs, make([]float32, size))
			}
			for range n {
				dst, w = append(dst, make([]float32, size)), append(w, slices.Repeat([]float64{0.5}, k))
			}
			b.SetBytes(int64(4 * size * (n + k)))
			b.ReportAllocs()
			for b.Loop() {
				CombineAll(nil, dst, size, w, xs, size, 1, size)
			}
		})
	}
}
