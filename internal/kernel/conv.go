package kernel

import (
	"errors"
	"fmt"
	"math"
)

// Conv is the geometry of a batch of two-dimensional convolutions (as in
// PyTorch: cross-correlations). Input is N x CI x H x W, the weights are
// CO x CI/Groups x KH x KW, output is N x CO x OutH x OutW, all row-major:
//
//	y[n,o,i,j] = bias[o] + sum over c, p, q of
//	    w[o,c,p,q] * x[n, c, i*StrideH - PadH + p*DilH, j*StrideW - PadW + q*DilW]
//
// where x is zero outside of its H x W and, with groups, c runs over the input
// channels of the group of o. Strides, dilations and Groups are at least 1.
type Conv struct {
	N, CI, H, W      int
	CO, KH, KW       int
	StrideH, StrideW int
	PadH, PadW       int
	DilH, DilW       int
	Groups           int
}

// OutH returns the height of the output.
func (g Conv) OutH() int { return outSize(g.H, g.KH, g.StrideH, g.PadH, g.DilH) }

// OutW returns the width of the output.
func (g Conv) OutW() int { return outSize(g.W, g.KW, g.StrideW, g.PadW, g.DilW) }

// InLen returns the number of entries of the input.
func (g Conv) InLen() int { return g.N * g.CI * g.H * g.W }

// OutLen returns the number of entries of the output.
func (g Conv) OutLen() int { return g.N * g.CO * g.OutH() * g.OutW() }

// WeightLen returns the number of entries of the weights.
func (g Conv) WeightLen() int { return g.CO * (g.CI / g.Groups) * g.KH * g.KW }

// outSize returns how often a dilated window fits, stride by stride.
func outSize(in, kernel, stride, pad, dil int) int {
	span := in + 2*pad - dil*(kernel-1) - 1
	if span < 0 {
		return 0
	}
	return span/stride + 1
}

// maxEntries bounds every tensor, so that no size or index overflows.
const maxEntries = math.MaxInt32

// Validate lists everything that is wrong with the geometry.
func (g Conv) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("convolution: "+format, args...)) }
	for _, d := range []struct {
		name      string
		value, lo int
	}{
		{"batch size", g.N, 1}, {"input channels", g.CI, 1}, {"input height", g.H, 1}, {"input width", g.W, 1},
		{"output channels", g.CO, 1}, {"kernel height", g.KH, 1}, {"kernel width", g.KW, 1},
		{"vertical stride", g.StrideH, 1}, {"horizontal stride", g.StrideW, 1},
		{"vertical padding", g.PadH, 0}, {"horizontal padding", g.PadW, 0},
		{"vertical dilation", g.DilH, 1}, {"horizontal dilation", g.DilW, 1}, {"groups", g.Groups, 1},
	} {
		if d.value < d.lo || d.value > maxEntries {
			bad("%s %d, want at least %d and at most %d", d.name, d.value, d.lo, maxEntries)
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	if g.CI%g.Groups != 0 || g.CO%g.Groups != 0 {
		bad("%d input and %d output channels, want multiples of the %d groups", g.CI, g.CO, g.Groups)
	}
	if g.OutH() == 0 || g.OutW() == 0 {
		bad("kernel %dx%d with dilation %dx%d is larger than the padded input %dx%d",
			g.KH, g.KW, g.DilH, g.DilW, g.H+2*g.PadH, g.W+2*g.PadW)
	}
	if !bounded(g.N, g.CI, g.H+2*g.PadH, g.W+2*g.PadW) || !bounded(g.N, g.CO, g.OutH(), g.OutW()) || !bounded(g.CO, g.CI, g.KH, g.KW) {
		bad("input %dx%dx%dx%d, output %dx%dx%dx%d or weights %dx%dx%dx%d, want at most %d entries each",
			g.N, g.CI, g.H, g.W, g.N, g.CO, g.OutH(), g.OutW(), g.CO, g.CI, g.KH, g.KW, maxEntries)
	}
	return errors.Join(errs...)
}

// bounded tells whether the product of positive dimensions is at most maxEntries.
func bounded(dims ...int) bool {
	size := 1
	for _, d := range dims {
		if d > maxEntries {
			return false
		}
		if size *= d; size > maxEntries {
			return false
		}
	}
	return true
}

// ConvForward computes y = conv(x, w) + bias, then max(0, .) if relu is set.
// A nil bias counts as zeros. Here and below the geometry must be valid and
// each slice at least as long as it tells; anything else panics.
func ConvForward(p *Pool, g Conv, x, w, bias, y []float32, relu bool, ws *Workspace) {
	ws = ws.orNew()
	x, w, y = atLeast("the input", x, g.InLen()), atLeast("the weights", w, g.WeightLen()), atLeast("the output", y, g.OutLen())
	bias, floor := ws.epilogue(g.CO, bias, relu)
	if winogradFits(g) {
		c := ws.tiles(false)
		c.src, c.weights, c.dst, c.bias, c.floor = x, w, y, bias, floor
		c.run(p, ws, g, false)
		return
	}
	if planarFits(g, false) {
		c := &ws.planar
		c.plan(ws, g, false)
		c.src, c.weights, c.dst, c.bias, c.floor = x, w, y, bias, floor
		c.run(p)
		return
	}
	c := &ws.correlation
	c.plan(ws, g, false, p.Threads())
	c.src, c.weights, c.dst, c.bias, c.floor = x, w, y, bias, floor
	c.run(p)
}

// ConvBackwardInput computes dx, the gradient of the input, from dy, that of
// the output.
func ConvBackwardInput(p *Pool, g Conv, dy, w, dx []float32, ws *Workspace) {
	ws = ws.orNew()
	dy, w, dx = atLeast("dy", dy, g.OutLen()), atLeast("the weights", w, g.WeightLen()), atLeast("dx", dx, g.InLen())
	if winogradFits(g) {
		c := ws.tiles(true)
		c.src, c.weights, c.dst, c.bias = dy, w, dx, nil
		c.run(p, ws, g, true)
		return
	}
	if planarFits(g, true) {
		c := &ws.planar
		c.plan(ws, g, true)
		c.src, c.weights, c.dst, c.bias = dy, w, dx, nil
		c.run(p)
		return
	}
	c := &ws.correlation
	c.plan(ws, g, true, p.Threads())
	c.src, c.weights, c.dst, c.bias = dy, w, dx, nil
	c.run(p)
}

// ConvBackwardParams computes dw and db, the gradients of the weights and of
// the bias, in one pass over dy, the gradient of the output. A nil db is left out.
func ConvBackwardParams(p *Pool, g Conv, x, dy, dw, db []float32, ws *Workspace) {
	ws = ws.orNew()
	x, dy, dw = atLeast("the input", x, g.InLen()), atLeast("dy", dy, g.OutLen()), atLeast("dw", dw, g.WeightLen())
	if db != nil {
		db = atLeast("db", db, g.CO)
	}
	if g.depthwise() {
		d := &ws.planarDW
		d.plan(ws, g)
		d.x, d.dy, d.dw, d.db = x, dy, dw, db
		d.run(p)
		return
	}
	if winogradFits(g) {
		d := &ws.gradient
		d.x, d.dy, d.dw, d.db = x, dy, dw, db
		d.run(p, ws, g)
		return
	}
	d := &ws.weights
	d.plan(ws, g, p.Threads())
	d.x, d.dy, d.dw, d.db = x, dy, dw, db
	d.run(p)
}

// ConvBackwardBias computes db, the gradient of the bias: dy summed over
// images and pixels. ConvBackwardParams does it at less cost.
func ConvBackwardBias(p *Pool, g Conv, dy, db []float32) {
	dy, db = atLeast("dy", dy, g.OutLen()), atLeast("db", db, g.CO)
	plane := g.OutH() * g.OutW()
	p.Run(g.CO, func(o int) {
		s := 0.0
		for n := range g.N {
			s += float64(Sum(dy[(n*g.CO+o)*plane:][:plane]))
		}
		db[o] = float32(s)
	})
}

// atLeast returns the first n entries of x, which must have them.
func atLeast[T any](name string, x []T, n int) []T {
	if len(x) < n {
		panic(fmt.Sprintf("kernel: %s has %d entries, want at least %d", name, len(x), n))
	}
	return x[:n]
}
