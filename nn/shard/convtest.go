package shard

import (
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// convTest is Freivalds' test of the result of a convolution, forward or backward:
//
//	begin, set signs, sumChannels, convolve for each operand, judge
type convTest struct {
	*checkScratch
	config  Conv2dConfig
	product coded.Product
	xs      []coded.Tensor // what was convolved
	result  coded.Tensor
	plane   int // of the result
}

// begin checks the shape of the result of a chunk. It returns which of the channels
// of a block of every group it has.
func (t *convTest) begin(c cut, chunks, chunk int) (lo, hi int, err error) {
	lo, hi = c.bounds(chunks, chunk)
	samples, channels := c.size(lo, hi)
	want := [...]int{samples, c.groups * channels, c.plane[0], c.plane[1]}
	if !shaped(t.result, want[:]) {
		return 0, 0, &coded.ShapeError{What: "verify: result", Got: slices.Clone(t.result.Shape), Elements: len(t.result.Data), Want: slices.Clone(want[:])}
	}
	t.plane = c.plane[0] * c.plane[1]
	if c.byBatch {
		lo, hi = 0, channels
	}
	t.clearSums(samples * t.plane)
	return lo, hi, nil
}

// operand leaves of an operand the samples of a chunk.
func (t *convTest) operand(c cut, x coded.Tensor, chunks, chunk int) coded.Tensor {
	if !c.byBatch {
		return x
	}
	lo, hi := c.bounds(chunks, chunk)
	size := len(x.Data) / c.batch
	return coded.Tensor{Shape: append([]int{hi - lo}, x.Shape[1:]...), Data: x.Data[lo*size : hi*size]}
}

// sumChannels adds up the channels of the result with the signs.
func (t *convTest) sumChannels() {
	samples, size := t.result.Shape[0], t.result.Shape[1]*t.plane
	sums := t.line.resize(t.plane).Data
	t.got = t.got[:0]
	for n := range samples {
		t.rows = planes(t.rows[:0], t.result.Data[n*size:(n+1)*size], t.plane)
		kernel.Combine(sums, t.signs, t.rows)
		t.got = widen(t.got, sums)
	}
	clear(t.rows)
}

// convolve adds what an operand makes of the sums to what they should be.
func (t *convTest) convolve(x coded.Tensor, filter []float32) {
	t.xs = append(t.xs, x)
	samples := t.result.Shape[0]
	g := t.config.geometry(samples, t.result.Shape[2], t.result.Shape[3])
	g.Groups = 1
	sums := t.line.resize(samples * t.plane).Data
	if t.product == coded.Forward {
		g.CO, g.H, g.W = 1, x.Shape[2], x.Shape[3]
		kernel.ConvForward(nil, g, x.Data, filter, nil, sums, false, &t.ws)
	} else {
		g.CI = 1
		kernel.ConvBackwardInput(nil, g, x.Data, filter, sums, &t.ws)
	}
	for i, v := range sums {
		t.want[i] += float64(v)
	}
}

// judge compares the sums.
func (t *convTest) judge(r coded.Rounding) (residual float64, err error) {
	residual, wrong := r.Judge(t.got, t.want, t.squares)
	if wrong != nil {
		return residual, wrong
	}
	return residual, nil
}

// squares gives the sums of squares at a place of a sample: of the channels of the
// result, and of what of the operands they are made of.
func (t *convTest) squares(place int) (result, operand float64) {
	sample, at := place/t.plane, place%t.plane
	size := t.result.Shape[1] * t.plane
	for i := sample*size + at; i < (sample+1)*size; i += t.plane {
		result += float64(t.result.Data[i]) * float64(t.result.Data[i])
	}
	for _, x := range t.xs {
		operand += t.sources(x, sample, at)
	}
	return result, operand
}

// sources sums the squares of what of an operand goes into a place of a sample.
func (t *convTest) sources(operand coded.Tensor, sample, at int) (squares float64) {
	width := t.result.Shape[3]
	channels, xh, xw := operand.Shape[1], operand.Shape[2], operand.Shape[3]
	x := operand.Data[sample*channels*xh*xw:][:channels*xh*xw]
	for kh := range t.config.KernelH {
		h, ok := t.source(at/width, kh, xh)
		if !ok {
			continue
		}
		for kw := range t.config.KernelW {
			w, ok := t.source(at%width, kw, xw)
			for i := h*xw + w; ok && i < len(x); i += xh * xw {
				squares += float64(x[i]) * float64(x[i])
			}
		}
	}
	return squares
}

// source returns the row (or column) of the operand that a tap of the kernel takes to
// a row of the result.
func (t *convTest) source(at, tap, size int) (int, bool) {
	c := t.config
	from := at*c.Stride - c.Padding + tap*c.Dilation
	if t.product == coded.Backward {
		from = at + c.Padding - tap*c.Dilation
		if from%c.Stride != 0 {
			return 0, false
		}
		from /= c.Stride
	}
	return from, from >= 0 && from < size
}

func widen(dst []float64, x []float32) []float64 {
	for _, v := range x {
		dst = append(dst, float64(v))
	}
	return dst
}
