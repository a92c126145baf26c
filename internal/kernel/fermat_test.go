package kernel

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// newFermat makes a matrix of the given elements, 0 to 65536.
func newFermat(rows, cols int, element func(i, j int) uint64) *Fermat {
	f := &Fermat{Rows: make([][]uint16, rows)}
	for i := range f.Rows {
		f.Rows[i] = make([]uint16, cols)
		for j := range f.Rows[i] {
			v := element(i, j)
			if v == fermatPrime-1 {
				f.Carry = append(f.Carry, Entry{i, j})
				v--
			}
			f.Rows[i][j] = uint16(v)
		}
	}
	return f
}

// elements returns all elements of f.
func (f *Fermat) elements() [][]uint64 {
	all := make([][]uint64, len(f.Rows))
	for i, row := range f.Rows {
		all[i] = make([]uint64, len(row))
		for j, v := range row {
			all[i][j] = uint64(v)
		}
	}
	for _, e := range f.Carry {
		all[e.Row][e.Col]++
	}
	return all
}

// bigProduct multiplies in integers of any size and reduces in the end.
func bigProduct(a, b *Fermat, n int) [][]uint64 {
	x, y := a.elements(), b.elements()
	out := make([][]uint64, len(x))
	sum, term, left, right := new(big.Int), new(big.Int), new(big.Int), new(big.Int)
	for i := range out {
		out[i] = make([]uint64, n)
		for j := range n {
			sum.SetUint64(0)
			for k := range y {
				sum.Add(sum, term.Mul(left.SetUint64(x[i][k]), right.SetUint64(y[k][j])))
			}
			out[i][j] = term.Mod(sum, big.NewInt(fermatPrime)).Uint64()
		}
	}
	return out
}

// checkFermatProduct compares every engine's product with that of big integers.
func checkFermatProduct(t *testing.T, p *Pool, a, b *Fermat, n int) {
	t.Helper()
	want := bigProduct(a, b, n)
	for _, e := range fermatEngines {
		c := newFermat(len(a.Rows), n, func(_, _ int) uint64 { return 12345 })
		e.product(p, c, fermatPieces(a, b, n), n)
		slices.SortFunc(c.Carry, Entry.compare)
		for i, got := range c.elements() {
			if !slices.Equal(got, want[i]) {
				t.Fatalf("%s, %dx%dx%d: row %d is %v, want %v", e.name, len(a.Rows), n, len(b.Rows), i, got, want[i])
			}
		}
	}
}

// fermatEdges are elements at whose digits a product may go wrong.
var fermatEdges = []uint64{0, 1, 127, 128, 129, 255, 256, 0x7f7f, 0x7f80, 0x7fff, 0x8000, 0x8001, 0x807f, 0x8080, 0xff00, 0xfffe, 0xffff, 0x10000}

func TestFermatProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func(i, j int) uint64{
		"random":  func(_, _ int) uint64 { return rng.Uint64N(fermatPrime) },
		"edges":   func(_, _ int) uint64 { return fermatEdges[rng.IntN(len(fermatEdges))] },
		"carries": func(i, _ int) uint64 { return fermatPrime - 1 - uint64(i%5/4) },
	}
	for name, draw := range draws {
		for _, p := range []*Pool{nil, newTestPool(t, 3)} {
			for _, s := range [][3]int{{1, 1, 1}, {4, 48, 16}, {5, 49, 17}, {3, 47, 15}, {17, 10, 4}, {16, 200, 16}, {7, 97, 63}, {9, 16, 131}} {
				t.Run(fmt.Sprintf("%s/%dx%dx%d", name, s[0], s[1], s[2]), func(t *testing.T) {
					checkFermatProduct(t, p, newFermat(s[0], s[2], draw), newFermat(s[2], s[1], draw), s[1])
				})
			}
		}
	}
}

// TestFermatEdges: every pair of edges.
func TestFermatEdges(t *testing.T) {
	k := len(fermatEdges)
	a := newFermat(k, 1, func(i, _ int) uint64 { return fermatEdges[i] })
	b := newFermat(1, k, func(_, j int) uint64 { return fermatEdges[j] })
	checkFermatProduct(t, nil, a, b, k)
}

// TestFermatLong: sums of the largest digits, longer than a tile's sums hold.
func TestFermatLong(t *testing.T) {
	for _, v := range [][2]uint64{{0xffff, 0}, {0xffff, 0xffff}, {0x10000, 0x10000}, {0xff00, 0x00ff}, {0, 0}} {
		for _, k := range []int{1<<15 - 1, 1 << 15, 1<<16 + 5} {
			a := newFermat(1, k, func(_, _ int) uint64 { return v[0] })
			b := newFermat(k, 2, func(_, j int) uint64 { return v[j] })
			checkFermatProduct(t, nil, a, b, 2)
		}
	}
}

// TestFermatEmpty: products without rows, columns or terms.
func TestFermatEmpty(t *testing.T) {
	zero := func(_, _ int) uint64 { return 7 }
	for _, s := range [][3]int{{0, 3, 2}, {3, 0, 2}, {3, 4, 0}} {
		c := newFermat(s[0], s[1], zero)
		c.Carry = []Entry{{0, 0}}
		FermatProduct(nil, c, newFermat(s[0], s[2], zero), newFermat(s[2], s[1], zero))
		for _, row := range c.elements() {
			for _, v := range row {
				if v != 0 {
					t.Errorf("%v: an element is %d, want 0", s, v)
				}
			}
		}
	}
}

func TestFermatPanics(t *testing.T) {
	one := func(_, _ int) uint64 { return 1 }
	matrix := func(rows, cols int) *Fermat { return newFermat(rows, cols, one) }
	ragged := matrix(3, 4)
	ragged.Rows[1] = ragged.Rows[1][:3]
	stray := matrix(3, 4)
	stray.Carry = []Entry{{3, 0}}
	for what, x := range map[string][3]*Fermat{
		"rows of A":        {matrix(2, 5), matrix(1, 4), matrix(4, 5)},
		"inner dimension":  {matrix(2, 5), matrix(2, 3), matrix(4, 5)},
		"columns of B":     {matrix(2, 5), matrix(2, 4), matrix(4, 4)},
		"a short row of A": {matrix(3, 5), ragged, matrix(4, 5)},
		"a stray carry":    {matrix(3, 5), stray, matrix(4, 5)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			FermatProduct(nil, x[0], x[1], x[2])
		}()
	}
}

func TestFermatReduce(t *testing.T) {
	check := func(s int64) {
		want := new(big.Int).Mod(big.NewInt(s), big.NewInt(fermatPrime)).Int64()
		if got := fermatReduce(s); got != want {
			t.Errorf("%d is %d modulo 65537, want %d", s, got, want)
		}
	}
	for shift := range 64 {
		for d := int64(-2); d <= 2; d++ {
			check(1<<shift + d)
			check(-1<<shift + d)
			check(fermatPrime*d - 1)
		}
	}
}

// BenchmarkFermatProduct: a task of a polynomial code, and the decoding of one.
func BenchmarkFermatProduct(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func(_, _ int) uint64 { return rng.Uint64N(fermatPrime) }
	for _, s := range [][3]int{{1000, 1000, 4000}, {16, 1000000, 16}} {
		x, y, z := newFermat(s[0], s[2], draw), newFermat(s[2], s[1], draw), newFermat(s[0], s[1], draw)
		for _, threads := range []int{1, 2} {
			for _, e := range fermatEngines {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/threads=%d", e.name, s[0], s[1], s[2], threads), func(b *testing.B) {
					p := NewPool(threads)
					defer p.Close()
					for b.Loop() {
						z.Carry = z.Carry[:0]
						e.product(p, z, fermatPieces(x, y, s[1]), s[1])
					}
					b.ReportMetric(float64(s[0])*float64(s[1])*float64(s[2])/1e9*float64(b.N)/b.Elapsed().Seconds(), "GMAC/s")
				})
			}
		}
	}
}
