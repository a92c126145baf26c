package shard

import (
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// The gradient of a convolution's weights is bilinear in X and dY, so its test can sum
// the outputs, or the inputs of one group:
//
//	sum_o z_o dW_o = the gradient for X and sum_o z_o dY_o
//	sum_c z_c dW_c = the gradient for sum_c z_c X_c and dY
//
// The first costs as much as one output of all inputs, the second as one input of all
// outputs of the chunk: what is cheaper is chosen.

// convGradient tests a chunk of the gradient.
func (t *pairTest) convGradient(c Conv2dConfig, chunk int) (residual float64, err error) {
	lo, hi := ChunkRange(c.Out, t.chunks, chunk)
	if want := []int{hi - lo, c.In / c.Groups, c.KernelH, c.KernelW}; !shaped(t.result, want) {
		return 0, misfit("result", t.result, want...)
	}
	g := gradientTest{pairTest: t, config: c, lo: lo, outs: hi - lo, ins: c.In / c.Groups, taps: c.KernelH * c.KernelW}
	g.byOutput = c.Groups > 1 || c.In <= hi-lo
	g.sumResult()
	for i := range t.a {
		geometry, err := c.pair("verify", t.b[i], t.a[i])
		if err != nil {
			return 0, err
		}
		if g.byOutput {
			g.foldOutputs(geometry, t.b[i].Data, t.a[i].Data)
		} else {
			g.foldInputs(geometry, t.b[i].Data, t.a[i].Data)
		}
	}
	r := coded.Rounding{Terms: max(g.terms, len(t.signs)), Norm: math.Sqrt(g.norm)}
	residual, wrong := r.Judge(t.got, t.want, g.squares)
	if wrong != nil {
		return residual, wrong
	}
	return residual, nil
}

// gradientTest is one such test; dY is t.a and X is t.b.
type gradientTest struct {
	*pairTest
	config   Conv2dConfig
	lo, outs int // outputs of the chunk
	ins      int // inputs of a group
	taps     int
	byOutput bool

	terms int
	norm  float64 // its square, of the factor that is summed
}

// sumResult draws the signs and sums the result with them: [groups, ins, taps], or
// [outs, taps].
func (g *gradientTest) sumResult() {
	lines, each, group := g.config.Groups, g.ins*g.taps, g.outs/g.config.Groups
	g.drawSigns(g.outs)
	if !g.byOutput {
		lines, each, group = g.outs, g.taps, g.ins
		g.drawSigns(g.ins)
	}
	g.got = g.got[:0]
	sums := g.line.resize(each).Data
	for line := range lines {
		g.rows = planes(g.rows[:0], g.result.Data[line*group*each:(line+1)*group*each], each)
		kernel.Combine(sums, g.lineSigns(line, group), g.rows)
		g.got = widen(g.got, sums)
	}
	clear(g.rows)
	g.clearSums(lines * each)
}

// lineSigns are the signs of a group of outputs; those of inputs are the same for
// every output.
func (g *gradientTest) lineSigns(line, group int) []float32 {
	if !g.byOutput {
		return g.signs
	}
	return g.signs[line*group : (line+1)*group]
}

// foldOutputs adds the gradient for X and the summed outputs of every group of dY.
func (g *gradientTest) foldOutputs(c kernel.Conv, x, dy []float32) {
	plane, group := c.OutH()*c.OutW(), g.outs/c.Groups
	folded := g.sums.resize(c.N * c.Groups * plane).Data
	for n := range c.N {
		part := dy[(n*c.CO+g.lo)*plane : (n*c.CO+g.lo+g.outs)*plane]
		g.norm += kernel.SumSquares(part)
		for i := range c.Groups {
			g.rows = planes(g.rows[:0], part[i*group*plane:(i+1)*group*plane], plane)
			kernel.Combine(folded[(n*c.Groups+i)*plane:][:plane], g.lineSigns(i, group), g.rows)
		}
	}
	c.CO = c.Groups
	g.add(c, x, folded)
}

// foldInputs adds the gradient for the summed inputs of X and the chunk's outputs of dY.
func (g *gradientTest) foldInputs(c kernel.Conv, x, dy []float32) {
	plane, size := c.OutH()*c.OutW(), c.H*c.W
	folded, part := g.sums.resize(c.N*size).Data, g.part.resize(c.N*g.outs*plane).Data
	for n := range c.N {
		g.rows = planes(g.rows[:0], x[n*c.CI*size:(n+1)*c.CI*size], size)
		kernel.Combine(folded[n*size:(n+1)*size], g.signs, g.rows)
		copy(part[n*g.outs*plane:(n+1)*g.outs*plane], dy[(n*c.CO+g.lo)*plane:])
	}
	g.norm += kernel.SumSquares(x)
	c.CI, c.CO = 1, g.outs
	g.add(c, folded, part)
}

func (g *gradientTest) add(c kernel.Conv, x, dy []float32) {
	clear(g.rows)
	g.terms += c.N * c.OutH() * c.OutW()
	dw := g.line.resize(len(g.want)).Data
	kernel.ConvBackwardParams(nil, c, x, dy, dw, nil, &g.ws)
	for i, v := range dw {
		g.want[i] += float64(v)
	}
}

// squares gives the sums of squares of a line: of the elements of the result, and of
// what of the other factor they are made of.
func (g *gradientTest) squares(line int) (result, operand float64) {
	lines, step := g.outs/g.config.Groups, g.ins*g.taps // of the elements of a sum
	if !g.byOutput {
		lines, step = g.ins, g.taps
	}
	first := line/step*lines*step + line%step
	for i := range lines {
		v := float64(g.result.Data[first+i*step])
		result += v * v
	}
	for i := range g.a {
		if g.byOutput {
			operand += g.window(g.b[i], g.a[i], line/g.taps, line%g.taps)
		} else {
			operand += g.output(g.a[i], g.lo+line/g.taps)
		}
	}
	return result, operand
}

// output sums the squares of an output of dY.
func (g *gradientTest) output(dy coded.Tensor, o int) (squares float64) {
	plane := dy.Shape[2] * dy.Shape[3]
	for n := range dy.Shape[0] {
		squares += kernel.SumSquares(dy.Data[(n*dy.Shape[1]+o)*plane:][:plane])
	}
	return squares
}

// window sums the squares of an input of X where a tap meets it.
func (g *gradientTest) window(x, dy coded.Tensor, channel, tap int) (squares float64) {
	at := convTest{config: g.config, product: coded.Forward}
	height, width := x.Shape[2], x.Shape[3]
	for n := range x.Shape[0] {
		plane := x.Data[(n*x.Shape[1]+channel)*height*width:][:height*width]
		for oh := range dy.Shape[2] {
			h, ok := at.source(oh, tap/g.config.KernelW, height)
			for ow := 0; ok && ow < dy.Shape[3]; ow++ {
				if w, in := at.source(ow, tap%g.config.KernelW, width); in {
					squares += float64(plane[h*width+w]) * float64(plane[h*width+w])
				}
			}
		}
	}
	return squares
}
