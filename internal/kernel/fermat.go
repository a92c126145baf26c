package kernel

import (
	"cmp"
	"fmt"
	"slices"
)

// Fermat is a matrix modulo 65537: element (i,j) is Rows[i][j], and one more
// where Carry lists it. So an element takes two bytes, and 65536 is 65535 with a
// carry.
type Fermat struct {
	Rows  [][]uint16 // of equal length
	Carry []Entry    // by rows, then columns; none twice
}

// Entry is a place in a matrix.
type Entry struct{ Row, Col int }

func (e Entry) compare(f Entry) int {
	return cmp.Or(cmp.Compare(e.Row, f.Row), cmp.Compare(e.Col, f.Col))
}

// FermatProduct computes C = A B modulo 65537, where A is m x k, B is k x n and
// the rows of C are there to be written: m of length n. C.Carry is written anew, in
// the same memory if it is large enough. C must not overlap A or B. Sizes that do
// not fit together panic before anything is written.
//
// A product of m x n x k costs about as much as one in float32 where the
// processor has AVX-512 VNNI, and four of them otherwise, plus those of 2 or 4
// rows of B for each column of A or row of B that has a carry: of random elements
// one in 65537 has one, but the cost is bounded by four products whatever there is.
func FermatProduct(p *Pool, c, a, b *Fermat) {
	n := checkFermat(c, a, b)
	c.Carry = c.Carry[:0]
	if len(c.Rows) == 0 || n == 0 {
		return
	}
	if len(b.Rows) == 0 {
		for _, row := range c.Rows {
			clear(row)
		}
		return
	}
	fermatEngines[len(fermatEngines)-1].product(p, c, fermatPieces(a, b, n), n)
	slices.SortFunc(c.Carry, Entry.compare)
}

// fermatEngine is a way to compute a sum of products.
type fermatEngine struct {
	name string
	// product sets c, of n columns, and appends its carries in any order.
	product func(p *Pool, c *Fermat, pieces []fermatPiece, n int)
}

// fermatEngines lists what this processor can run, the fastest last.
var fermatEngines = append([]fermatEngine{{"float32", fermatFloats}}, nativeFermatEngines()...)

// fermatPiece is one term of a sum of products without carries: of columns off ..
// off+len(right)-1 of left with the rows of right.
type fermatPiece struct {
	left  [][]uint16
	off   int
	right [][]uint16
}

// fermatPieces writes a product of matrices as a sum of those without carries:
// with A = A' + E and B = B' + F, E and F having ones at the carries,
//
//	A B = A' B' + E B' + (A' + E) F
//
// where of E only the columns that are not 0 are taken, and of F only the rows.
func fermatPieces(a, b *Fermat, n int) []fermatPiece {
	pieces := []fermatPiece{{a.Rows, 0, b.Rows}}
	inA, inB := map[int][]int{}, map[int][]int{} // by the inner index: rows of A, columns of B
	for _, e := range a.Carry {
		inA[e.Col] = append(inA[e.Col], e.Row)
	}
	for _, e := range b.Carry {
		inB[e.Row] = append(inB[e.Row], e.Col)
	}
	var ones [][]int       // columns of E, by the rows that have ones,
	var e, f [][]uint16    // the rows that they are multiplied by; and those of the columns
	ofF := sortedKeys(inB) // of A'
	for _, k := range sortedKeys(inA) {
		ones, e = append(ones, inA[k]), append(e, b.Rows[k])
	}
	for _, k := range ofF {
		row := indicator(n, inB[k])
		f = append(f, row)
		if inA[k] != nil {
			ones, e = append(ones, inA[k]), append(e, row)
		}
	}
	if len(e)+len(f) > 0 {
		pieces = append(pieces, fermatPiece{carryColumns(a.Rows, ones, ofF), 0, slices.Concat(e, f)})
	}
	return pieces
}

// carryColumns returns a matrix of columns that have ones in the given rows, and
// then some columns of a.
func carryColumns(a [][]uint16, ones [][]int, of []int) [][]uint16 {
	width := len(ones) + len(of)
	all, out := make([]uint16, len(a)*width), make([][]uint16, len(a))
	for i, row := range a {
		out[i] = all[i*width : (i+1)*width]
		for j, k := range of {
			out[i][len(ones)+j] = row[k]
		}
	}
	for j, rows := range ones {
		for _, i := range rows {
			out[i][j] = 1
		}
	}
	return out
}

func sortedKeys(m map[int][]int) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// indicator returns a row of length n with ones at the given places.
func indicator(n int, at []int) []uint16 {
	row := make([]uint16, n)
	for _, i := range at {
		row[i] = 1
	}
	return row
}

// checkFermat panics unless the sizes fit together, and returns the columns of c.
func checkFermat(c, a, b *Fermat) (n int) {
	if len(c.Rows) > 0 {
		n = len(c.Rows[0])
	}
	if len(a.Rows) != len(c.Rows) {
		panic(fmt.Sprintf("kernel: fermat product: %d rows of A, %d of C", len(a.Rows), len(c.Rows)))
	}
	for _, x := range []struct {
		name string
		m    *Fermat
		cols int
	}{{"A", a, len(b.Rows)}, {"B", b, n}, {"C", c, n}} {
		for i, row := range x.m.Rows {
			if len(row) != x.cols && (x.name != "B" || len(c.Rows) > 0) {
				panic(fmt.Sprintf("kernel: fermat product: row %d of %s has %d elements, want %d", i, x.name, len(row), x.cols))
			}
		}
		for _, e := range x.m.Carry {
			if x.name != "C" && (e.Row < 0 || e.Row >= len(x.m.Rows) || e.Col < 0 || e.Col >= x.cols) {
				panic(fmt.Sprintf("kernel: fermat product: %s is %dx%d and has a carry at %d,%d", x.name, len(x.m.Rows), x.cols, e.Row, e.Col))
			}
		}
	}
	return n
}
