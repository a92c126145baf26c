package kernel

import (
	"errors"
	"fmt"
)

// AvgPool is the geometry of average pooling over N x C planes of H x W, as in
// PyTorch: padding counts as zeros and is at most half of the kernel. A window's
// sum is divided by KH*KW, or, with ExcludePad, by the number of its entries
// inside the plane.
type AvgPool struct {
	N, C, H, W       int
	KH, KW           int
	StrideH, StrideW int
	PadH, PadW       int
	ExcludePad       bool
}

// OutH returns the height of the output.
func (g AvgPool) OutH() int { return outSize(g.H, g.KH, g.StrideH, g.PadH, 1) }

// OutW returns the width of the output.
func (g AvgPool) OutW() int { return outSize(g.W, g.KW, g.StrideW, g.PadW, 1) }

// InLen returns the number of entries of the input.
func (g AvgPool) InLen() int { return g.N * g.C * g.H * g.W }

// OutLen returns the number of entries of the output.
func (g AvgPool) OutLen() int { return g.N * g.C * g.OutH() * g.OutW() }

// Validate lists everything that is wrong with the geometry.
func (g AvgPool) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("average pooling: "+format, args...))
	}
	for _, d := range []struct {
		name      string
		value, lo int
	}{
		{"batch size", g.N, 1}, {"channels", g.C, 1}, {"input height", g.H, 1}, {"input width", g.W, 1},
		{"kernel height", g.KH, 1}, {"kernel width", g.KW, 1},
		{"vertical stride", g.StrideH, 1}, {"horizontal stride", g.StrideW, 1},
		{"vertical padding", g.PadH, 0}, {"horizontal padding", g.PadW, 0},
	} {
		if d.value < d.lo || d.value > maxEntries {
			bad("%s %d, want at least %d and at most %d", d.name, d.value, d.lo, maxEntries)
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	if g.PadH > g.KH/2 || g.PadW > g.KW/2 {
		bad("padding %dx%d, want at most half of the kernel %dx%d", g.PadH, g.PadW, g.KH, g.KW)
	}
	if !bounded(g.KH, g.KW) {
		bad("kernel %dx%d, want at most %d entries", g.KH, g.KW, maxEntries)
	}
	if g.OutH() == 0 || g.OutW() == 0 {
		bad("kernel %dx%d is larger than the padded input %dx%d", g.KH, g.KW, g.H+2*g.PadH, g.W+2*g.PadW)
	}
	if !bounded(g.N, g.C, g.H+2*g.PadH, g.W+2*g.PadW) {
		bad("input %dx%dx%dx%d, want at most %d entries", g.N, g.C, g.H, g.W, maxEntries)
	}
	return errors.Join(errs...)
}

// AvgPoolForward writes the average of each window to y. The geometry must be
// valid and each slice at least as long as it tells; anything else panics.
func AvgPoolForward(p *Pool, g AvgPool, x, y []float32) {
	t := avgPools.get()
	*t = avgPool{AvgPool: g, in: atLeast("the input", x, g.InLen()), out: atLeast("the output", y, g.OutLen())}
	p.run(g.N, t)
	*t = avgPool{}
	avgPools.put(t)
}

// AvgPoolBackward computes dx, the gradient of the input, from dy, that of the
// output.
func AvgPoolBackward(p *Pool, g AvgPool, dy, dx []float32) {
	t := avgPools.get()
	*t = avgPool{AvgPool: g, in: atLeast("dx", dx, g.InLen()), out: atLeast("dy", dy, g.OutLen())}
	p.run(g.N, (*avgUnpool)(t))
	*t = avgPool{}
	avgPools.put(t)
}

// GlobalAvgPool writes the average of each of some planes of the given size,
// in the order of Sum.
func GlobalAvgPool(p *Pool, planes, size int, x, y []float32) {
	t := globalPools.get()
	*t = globalPool{planes, size, atLeast("the input", x, planes*size), atLeast("the output", y, planes)}
	p.run(ceilDiv(planes, globalPlanes), t)
	*t = globalPool{}
	globalPools.put(t)
}

// GlobalAvgPoolBackward spreads the gradient of each average over its plane.
func GlobalAvgPoolBackward(p *Pool, planes, size int, dy, dx []float32) {
	t := globalPools.get()
	*t = globalPool{planes, size, atLeast("dx", dx, planes*size), atLeast("dy", dy, planes)}
	p.run(ceilDiv(planes, globalPlanes), (*globalUnpool)(t))
	*t = globalPool{}
	globalPools.put(t)
}
