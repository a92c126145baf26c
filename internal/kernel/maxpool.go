package kernel

import (
	"errors"
	"fmt"
	"math"
)

// MaxPool is the geometry of max pooling over N x C planes of H x W, as in
// PyTorch: padding counts as minus infinity and is at most half of the kernel.
// With ReLU set, the maximum and zero are taken as well: pooling and ReLU in
// one pass, in either order of the two.
type MaxPool struct {
	N, C, H, W       int
	KH, KW           int
	StrideH, StrideW int
	PadH, PadW       int
	ReLU             bool
}

// Dead is the choice of a window whose maximum ReLU has replaced by zero: no
// gradient passes.
const Dead = math.MaxUint16

// OutH returns the height of the output.
func (g MaxPool) OutH() int { return outSize(g.H, g.KH, g.StrideH, g.PadH, 1) }

// OutW returns the width of the output.
func (g MaxPool) OutW() int { return outSize(g.W, g.KW, g.StrideW, g.PadW, 1) }

// InLen returns the number of entries of the input.
func (g MaxPool) InLen() int { return g.N * g.C * g.H * g.W }

// OutLen returns the number of entries of the output and of the choices.
func (g MaxPool) OutLen() int { return g.N * g.C * g.OutH() * g.OutW() }

// Validate lists everything that is wrong with the geometry.
func (g MaxPool) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("max pooling: "+format, args...)) }
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
	if !bounded(g.KH, g.KW) || g.KH*g.KW >= Dead {
		bad("kernel %dx%d, want less than %d entries", g.KH, g.KW, Dead)
	}
	if g.OutH() == 0 || g.OutW() == 0 {
		bad("kernel %dx%d is larger than the padded input %dx%d", g.KH, g.KW, g.H+2*g.PadH, g.W+2*g.PadW)
	}
	if !bounded(g.N, g.C, g.H+2*g.PadH, g.W+2*g.PadW) {
		bad("input %dx%dx%dx%d, want at most %d entries", g.N, g.C, g.H, g.W, maxEntries)
	}
	return errors.Join(errs...)
}

// MaxPoolForward writes the maximum of each window to y and to choice where in
// the window it stands: row*KW + column, the first of equals, or Dead. A NaN
// counts as the largest, the last one of several. The geometry must be valid
// and each slice at least as long as it tells; anything else panics.
func MaxPoolForward(p *Pool, g MaxPool, x, y []float32, choice []uint16) {
	t := maxPools.get()
	*t = maxPool{MaxPool: g, isa: activeConv,
		in: atLeast("the input", x, g.InLen()), out: atLeast("the output", y, g.OutLen()), choice: atLeast("the choices", choice, g.OutLen())}
	p.run(g.N, t)
	*t = maxPool{}
	maxPools.put(t)
}

// MaxPoolBackward computes dx, the gradient of the input, from dy, that of the
// output, and the choices of the forward pass.
func MaxPoolBackward(p *Pool, g MaxPool, dy []float32, choice []uint16, dx []float32) {
	t := maxPools.get()
	*t = maxPool{MaxPool: g, isa: activeConv,
		in: atLeast("dx", dx, g.InLen()), out: atLeast("dy", dy, g.OutLen()), choice: atLeast("the choices", choice, g.OutLen())}
	p.run(g.N, (*maxUnpool)(t))
	*t = maxPool{}
	maxPools.put(t)
}
