package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestReencodeThreshold: the finer job's threshold is p m' q' + p - 1, exactly.
func TestReencodeThreshold(t *testing.T) {
	for _, test := range []struct {
		spec       Spec
		rows, cols int
		want       int
	}{
		{Spec{Name: "entangled", N: 20, M: 2, P: 2, Q: 2}, 2, 1, 17},
		{Spec{Name: "entangled", N: 36, M: 2, P: 2, Q: 2}, 2, 2, 33},
		{Spec{Name: "entangled", N: 28, M: 2, P: 3, Q: 2}, 2, 1, 26},
		{Spec{Name: "entangled", N: 28, M: 1, P: 2, Q: 3}, 1, 4, 25},
		{Spec{Name: "polynomial", N: 16, M: 2, Q: 2}, 3, 1, 12},
		{Spec{Name: "polynomial", N: 27, M: 2, Q: 1}, 3, 4, 24},
		{Spec{Name: "matdot", N: 16, P: 3}, 2, 2, 14},
		{Spec{Name: "matdot", N: 7, P: 2}, 1, 1, 3},
	} {
		e, err := Reencode(test.spec, test.rows, test.cols)
		if err != nil {
			t.Fatal(err)
		}
		if e.Code.Threshold() != test.want {
			t.Errorf("%v in %d x %d pieces: threshold %d, want %d", test.spec, test.rows, test.cols, e.Code.Threshold(), test.want)
		}
		report, err := e.Code.CheckThreshold(200, rand.New(rand.NewPCG(1, 2)))
		if err != nil || report.Refuted != nil || report.Tight == nil {
			t.Errorf("%v in %d x %d pieces: error %v, refuted by %v, tight by %v", test.spec, test.rows, test.cols, err, report.Refuted, report.Tight)
		}
	}
}

// TestReencodeEverySet tries every set of tasks of small re-encoded codes.
func TestReencodeEverySet(t *testing.T) {
	for _, s := range []Spec{{Name: "entangled", N: 7, M: 1, P: 2, Q: 1}, {Name: "polynomial", N: 7, M: 1, Q: 3}, {Name: "matdot", N: 7, P: 2}} {
		e, err := Reencode(s, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		checkEverySet(t, e.Code)
	}
}

// TestReencodeRows: recombining a task's coefficients gives those of the finer code,
// in float64 and over a prime field. Row piece a of A block (i, k) is block (i r + a, k).
func TestReencodeRows(t *testing.T) {
	s := Spec{Name: "entangled", N: 50, M: 2, P: 2, Q: 2}
	const rows, cols = 2, 3
	e, err := Reencode(s, rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	c := mustSpec(t, s)
	for w := range s.N {
		a := expandPieces(field.Real{}, e.A[w], c.Task(w).A[0], func(block, piece int) int {
			return (block/2*rows+piece)*2 + block%2
		})
		b := expandPieces(field.Real{}, e.B[w], c.Task(w).B[0], func(block, piece int) int {
			return block/2*2*cols + block%2*cols + piece
		})
		want := e.Code.Task(w)
		if !slices.EqualFunc(a, want.A[0], close13) || !slices.EqualFunc(b, want.B[0], close13) {
			t.Errorf("task %d: A %v, want %v; B %v, want %v", w, a, want.A[0], b, want.B[0])
		}
	}
	const p = field.Mersenne61
	coarse, err := c.def.Modular(p)
	if err != nil {
		t.Fatal(err)
	}
	fine, err := e.Code.def.Modular(p)
	if err != nil {
		t.Fatal(err)
	}
	as, _, err := e.Modular(p)
	if err != nil {
		t.Fatal(err)
	}
	for w := range s.N {
		a := expandPieces(p, as[w], coarse[w].A[0], func(block, piece int) int { return (block/2*rows+piece)*2 + block%2 })
		if !slices.Equal(a, fine[w].A[0]) {
			t.Errorf("task %d modulo %d: A %v, want %v", w, p, a, fine[w].A[0])
		}
	}
	if _, _, err := e.Modular(3); err == nil {
		t.Error("50 points modulo 3")
	}
}

// expandPieces gives the coefficients of all pieces of blocks, of which piece i of
// block j is number at(j, i).
func expandPieces[E any](f field.Field[E], pieces, blocks []E, at func(block, piece int) int) []E {
	out := make([]E, len(pieces)*len(blocks))
	for j, u := range blocks {
		for i, v := range pieces {
			out[at(j, i)] = f.Mul(u, v)
		}
	}
	return out
}

func close13(a, b float64) bool { return math.Abs(a-b) <= 1e-13*math.Abs(b) }

// TestReencodeProduct multiplies matrices of uneven sizes: the tasks hold coded
// blocks for 5 of 12, and re-encode them for 9 of 12.
func TestReencodeProduct(t *testing.T) {
	s := Spec{Name: "entangled", N: 12, M: 2, P: 2, Q: 1}
	const rows, cols = 1, 2
	e, err := Reencode(s, rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	a, b := countedTensor(5, 7), countedTensor(7, 5)
	as, bs := cutTensors(t, a, b, s)
	c := mustSpec(t, s)
	have := []int{1, 2, 3, 5, 6, 8, 9, 10, 11}
	var results []Tensor
	for _, w := range have {
		held := [2]Tensor{NewTensor(as[0].Shape...), NewTensor(bs[0].Shape...)}
		encodeTo(t, held[0], c.Task(w).A[0], as)
		encodeTo(t, held[1], c.Task(w).B[0], bs)
		results = append(results, reencodedProduct(t, e, w, held))
	}
	weights, err := NewDecoder(e.Code, DecoderConfig{}).Weights(have)
	if err != nil {
		t.Fatal(err)
	}
	// The pieces of a block of C first, then the blocks.
	blocks := make([]Tensor, 2)
	inner := Grid{Blocks(as[0].Shape[0], rows), Blocks(bs[0].Shape[1], cols)}
	for i := range blocks {
		var pieces []Tensor
		for out := range cols {
			piece := NewTensor(results[0].Shape...)
			encodeTo(t, piece, weights.Row(i*cols+out), results)
			pieces = append(pieces, piece)
		}
		blocks[i] = NewTensor(inner.Rows.Total, inner.Cols.Total)
		if err := inner.Assemble(blocks[i], pieces); err != nil {
			t.Fatal(err)
		}
	}
	got := NewTensor(5, 5)
	if err := (Grid{Blocks(5, 2), Blocks(5, 1)}).Assemble(got, blocks); err != nil {
		t.Fatal(err)
	}
	for i, want := range multiplied(a, b).Data {
		if e := math.Abs(float64(got.Data[i] - want)); !(e <= 1e-6*weights.Cond) {
			t.Errorf("element %d is %g, want %g (condition number %.3g)", i, got.Data[i], want, weights.Cond)
		}
	}
}

// cutTensors cuts the operands of a product as a spec says.
func cutTensors(t *testing.T, a, b Tensor, s Spec) (as, bs []Tensor) {
	t.Helper()
	m, p, q := s.grid()
	as, err := Grid{Blocks(a.Shape[0], m), Blocks(a.Shape[1], p)}.Cut(a)
	if err != nil {
		t.Fatal(err)
	}
	if bs, err = (Grid{Blocks(b.Shape[0], p), Blocks(b.Shape[1], q)}).Cut(b); err != nil {
		t.Fatal(err)
	}
	return as, bs
}

func encodeTo(t *testing.T, dst Tensor, row []float64, blocks []Tensor) {
	t.Helper()
	if err := Encode(dst, row, blocks); err != nil {
		t.Fatal(err)
	}
}

// reencodedProduct is what task w does with the coded blocks that it holds.
func reencodedProduct(t *testing.T, e *Reencoding, w int, held [2]Tensor) Tensor {
	t.Helper()
	rows := Blocks(held[0].Shape[0], len(e.A[w]))
	a := NewTensor(rows.Size, held[0].Shape[1])
	if err := EncodeRows(a, e.A[w], held[0], rows); err != nil {
		t.Fatal(err)
	}
	cols := Blocks(held[1].Shape[1], len(e.B[w]))
	b := NewTensor(held[1].Shape[0], cols.Size)
	if err := EncodeColumns(b, e.B[w], held[1], cols); err != nil {
		t.Fatal(err)
	}
	return multiplied(a, b)
}

func TestReencodeErrors(t *testing.T) {
	good := Spec{Name: "polynomial", N: 7, M: 2, Q: 2}
	for _, test := range []struct {
		spec       Spec
		rows, cols int
		want       string
	}{
		{good, 2, 1, "no code polynomial n=7 m=2 q=2: re-encoded in 2 x 1 pieces: n must be at least p*(m*rows)*(q*cols)+p-1 = 8"},
		{good, 0, 1, "there must be at least 1 x 1"},
		{good, 1 << 40, 1 << 40, "but at most 4096"},
		{Spec{Name: "ortho-polynomial", N: 9, M: 2, Q: 2}, 1, 1, "the code must be polynomial, matdot or entangled"},
		{Spec{Name: "polynomial", N: 3, M: 2, Q: 2}, 1, 1, "n must be at least m*q = 4"},
	} {
		_, err := Reencode(test.spec, test.rows, test.cols)
		var bad *SpecError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: error %v, want %s", test.spec, err, test.want)
		}
	}
}
