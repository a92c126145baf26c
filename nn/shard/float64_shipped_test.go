package shard_test

import (
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// shipped64 is a layer whose products are made of coded blocks of both factors; the
// weight stays where it is. It is written from the definition of a code for C = A B, not
// from that of FactorCoder.
type shipped64 struct {
	*layer64
	code  *coded.Code
	dec   *coded.Decoder
	alive shard.Survivors
}

func (l *shipped64) forward(x []float64) []float64 { return l.product(coded.Forward, x, l.w) }

func (l *shipped64) backward(x, dy []float64, u coded.Update) (dx []float64) {
	dx = l.product(coded.Backward, dy, l.w)
	step64(l.w, l.v, l.product(coded.Gradient, dy, x), u)
	return dx
}

// blocks64 is a factor or a result as it lies in memory: a matrix of planes that is cut
// into blocks. The code may count the blocks of its transpose.
type blocks64 struct {
	rows, cols coded.Partition
	plane      int
	transposed bool
}

// each calls f for every element with its block, in the code's order, its place in the
// block, and its place in the whole.
func (b blocks64) each(f func(block, inside, whole int)) {
	for whole := range b.rows.Total * b.cols.Total * b.plane {
		r, c, e := whole/b.plane/b.cols.Total, whole/b.plane%b.cols.Total, whole%b.plane
		block := r/b.rows.Size*b.cols.K + c/b.cols.Size
		if b.transposed {
			block = c/b.cols.Size*b.rows.K + r/b.rows.Size
		}
		f(block, (r%b.rows.Size*b.cols.Size+c%b.cols.Size)*b.plane+e, whole)
	}
}

// encode returns the coded blocks of a matrix for rows of coefficients.
func (b blocks64) encode(x []float64, rows [][]float64) (coded [][]float64) {
	for _, row := range rows {
		y := make([]float64, b.rows.Size*b.cols.Size*b.plane)
		b.each(func(block, inside, whole int) { y[inside] += row[block] * x[whole] })
		coded = append(coded, y)
	}
	return coded
}

// product is Y of X and W, dX of dY and W, or dW of dY and X.
func (l *shipped64) product(p coded.Product, a, b []float64) []float64 {
	cut, _ := l.code.LayerCut()
	samples, ins, outs := cut.Blocks(p)
	n, in, out := coded.Blocks(l.n, samples), coded.Blocks(l.In, ins), coded.Blocks(l.Out, outs)
	y := l.outShape()
	of := func(rows, cols coded.Partition, plane int) blocks64 {
		return blocks64{rows: rows, cols: cols, plane: plane}
	}
	x, w, dy := of(n, in, l.convolution.h*l.convolution.w), of(out, in, l.KernelH*l.KernelW), of(n, out, y[2]*y[3])
	small := l.convolution // of one block of everything
	small.n, small.In, small.Out = n.Size, in.Size, out.Size
	left, right, result, multiply := dy, w, x, small.backward64
	switch p {
	case coded.Forward:
		left, right, result, multiply = x, w, dy, small.forward64
		right.transposed = true
	case coded.Gradient:
		left, right, result = dy, x, w
		left.transposed = true
		multiply = func(dy, x []float64) []float64 { return small.gradient64(x, dy) }
	}
	have := l.alive(l.code, coded.Round{Product: p}, 0)
	weights, err := l.dec.Weights(have)
	if err != nil {
		panic(err)
	}
	var results [][]float64
	for _, slot := range have {
		task := l.code.Task(slot)
		us, vs := left.encode(a, task.A), right.encode(b, task.B)
		for _, pairs := range task.Products() {
			sum := multiply(us[pairs[0].A], vs[pairs[0].B])
			for _, pair := range pairs[1:] {
				for i, v := range multiply(us[pair.A], vs[pair.B]) {
					sum[i] += v
				}
			}
			results = append(results, sum)
		}
	}
	c := make([]float64, result.rows.Total*result.cols.Total*result.plane)
	result.each(func(block, inside, whole int) {
		for t, r := range results {
			c[whole] += weights.D[block][t] * r[inside]
		}
	})
	return c
}

func TestShippedTrainingIsExact(t *testing.T) {
	local := network64(1)
	want := trainLocal64(t, local)
	specs := []coded.Spec{
		{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}, {Name: "rotation", N: 5, M: 4, Q: 2}, {Name: "ortho-matdot", N: 5, P: 2},
		{Name: "entangled", N: 7, M: 2, P: 2, Q: 1},
	}
	if testing.Short() {
		specs = specs[:1] // the others take the same ways
	}
	for _, spec := range specs {
		t.Run(spec.Name, func(t *testing.T) {
			code := newCode(t, spec)
			alive, dec := shard.RandomSurvivors(9), coded.NewDecoder(code, coded.DecoderConfig{})
			var placed []*shipped64
			for _, l := range network64(1) {
				placed = append(placed, &shipped64{l, code, dec, alive})
			}
			compareLosses64(t, train64(placed, update64), want)
			for i, l := range placed {
				if d := apart64(l.w, local[i].w); !(d <= agree64) {
					t.Errorf("layer %d: weights differ by %.1e, want at most %g", i, d, agree64)
				}
			}
		})
	}
}
