package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// pairTest tests a chunk of one result, the sum of the products of blocks of A with
// blocks of B.
type pairTest struct {
	*checkScratch
	rng     *rand.Rand
	product coded.Product
	chunks  int
	a, b    []coded.Tensor // as many
	result  coded.Tensor
}

func (t *pairTest) run(c Config, chunk int) (residual float64, err error) {
	switch c := c.(type) {
	case LinearConfig:
		return t.linear(c, chunk)
	case Conv2dConfig:
		if t.product == coded.Gradient {
			return t.convGradient(c, chunk)
		}
		return t.conv(c, chunk)
	}
	return 0, fmt.Errorf("a %T cannot be tested", c)
}

// drawSigns draws signs of so many lines.
func (t *pairTest) drawSigns(n int) {
	t.signs = t.signs[:0]
	for range n {
		t.signs = append(t.signs, float32(2*t.rng.IntN(2)-1))
	}
}

// misfit says that a factor does not fit the layer, or the other one.
func misfit(what string, x coded.Tensor, want ...int) error {
	return &coded.ShapeError{What: "verify: " + what, Got: slices.Clone(x.Shape), Elements: len(x.Data), Want: want}
}

// linear tests a product of matrices: with lo and hi what the chunk has,
//
//	forward   R = X W[lo:hi]^T
//	backward  R = dY W[:, lo:hi]
//	gradient  R = dY[:, lo:hi]^T X
func (t *pairTest) linear(c LinearConfig, chunk int) (residual float64, err error) {
	form, x, from, rows, cols := coded.XFT, t.a, t.b, c.Out, c.In
	lo, hi := ChunkRange(c.Out, t.chunks, chunk)
	switch t.product {
	case coded.Backward:
		form = coded.XF
		lo, hi = ChunkRange(c.In, t.chunks, chunk)
	case coded.Gradient:
		form, x, from, cols = coded.FX, t.b, t.a, c.Out
		rows = 0
		if len(t.a[0].Shape) > 0 {
			rows = t.a[0].Shape[0]
		}
	}
	part := t.sums.resize(len(from), rows*cols).Data
	kept := make([]coded.Tensor, len(from))
	for i, m := range from {
		if !shaped(m, []int{rows, cols}) {
			return 0, misfit("factor", m, rows, cols)
		}
		kept[i] = t.kept(part[i*rows*cols:], m, lo, hi)
	}
	v, err := coded.NewVerifier(form, 1, t.rng, kept...)
	if err != nil {
		return 0, err
	}
	return v.Residual(t.result, x...)
}

// kept is the part of a factor that a chunk has, as a Verifier wants it; memory that is
// as large is lent.
func (t *pairTest) kept(memory []float32, m coded.Tensor, lo, hi int) coded.Tensor {
	rows, cols, n := m.Shape[0], m.Shape[1], hi-lo
	if t.product == coded.Forward {
		return coded.Tensor{Shape: []int{n, cols}, Data: m.Data[lo*cols : hi*cols]}
	}
	part := coded.Tensor{Shape: []int{rows, n}, Data: memory[:rows*n]}
	if t.product == coded.Backward {
		for r := range rows {
			copy(part.Data[r*n:(r+1)*n], m.Data[r*cols+lo:])
		}
		return part
	}
	part.Shape = []int{n, rows}
	for r := range rows {
		for j, v := range m.Data[r*cols+lo : r*cols+hi] {
			part.Data[j*rows+r] = v
		}
	}
	return part
}

// conv tests a convolution, forward or backward, with the signed sum of the filters of
// the channels that the chunk has.
func (t *pairTest) conv(c Conv2dConfig, chunk int) (residual float64, err error) {
	cut, err := c.cut(t.product, t.a[0].Shape, 1, t.chunks)
	if err != nil {
		return 0, err
	}
	test := convTest{checkScratch: t.checkScratch, config: c, product: t.product, result: t.result}
	lo, hi, err := test.begin(cut, t.chunks, chunk)
	if err != nil {
		return 0, err
	}
	t.drawSigns(hi - lo)
	test.sumChannels()
	terms, squares := t.result.Shape[1], 0.0
	shape, _ := c.copies(1)
	for i, x := range t.a {
		if !shaped(x, t.a[0].Shape) {
			return 0, misfit("A", x, t.a[0].Shape...)
		}
		if !shaped(t.b[i], shape) {
			return 0, misfit("B", t.b[i], shape...)
		}
		filter, s := t.filter(c, t.b[i].Data, lo, hi)
		squares += s
		terms = max(terms, len(t.a)*len(filter))
		test.convolve(test.operand(cut, x, t.chunks, chunk), filter)
	}
	return test.judge(coded.Rounding{Terms: terms, Norm: math.Sqrt(squares)})
}

// filter sums the weights [out, in, taps] with the signs over outputs, of a backward
// product over inputs, lo to hi, whose squares it sums too.
func (t *pairTest) filter(c Conv2dConfig, w []float32, lo, hi int) (filter []float32, squares float64) {
	lines, channels, each := 1, c.Out, c.In*c.KernelH*c.KernelW
	if t.product == coded.Backward {
		lines, channels, each = c.Out, c.In, c.KernelH*c.KernelW
	}
	filter = t.sums.resize(lines * each).Data
	for line := range lines {
		part := w[(line*channels+lo)*each : (line*channels+hi)*each]
		t.rows = planes(t.rows[:0], part, each)
		kernel.Combine(filter[line*each:(line+1)*each], t.signs, t.rows)
		squares += kernel.SumSquares(part)
	}
	clear(t.rows)
	return filter, squares
}
