package kernel

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/internal/steady"
)

// referencePool pools from the definition.
func referencePool(g MaxPool, x []float32) (y []float32, choice []uint16) {
	for plane := range g.N * g.C {
		in := x[plane*g.H*g.W:][:g.H*g.W]
		for r := range g.OutH() {
			for c := range g.OutW() {
				best, at := float32(math.Inf(-1)), -1
				for k := range g.KH * g.KW {
					i, j := r*g.StrideH-g.PadH+k/g.KW, c*g.StrideW-g.PadW+k%g.KW
					if i < 0 || i >= g.H || j < 0 || j >= g.W {
						continue
					}
					if v := in[i*g.W+j]; at < 0 || v > best || math.IsNaN(float64(v)) {
						best, at = v, k
					}
				}
				if g.ReLU && best <= 0 {
					best, at = 0, Dead
				}
				y, choice = append(y, best), append(choice, uint16(at))
			}
		}
	}
	return y, choice
}

// referenceUnpool adds each entry of dy to the entry that was chosen.
func referenceUnpool(g MaxPool, dy []float32, choice []uint16) []float32 {
	dx := make([]float32, g.InLen())
	plane := g.OutH() * g.OutW()
	for i, d := range dy {
		at := int(choice[i])
		if at == Dead {
			continue
		}
		r, c := i%plane/g.OutW()*g.StrideH-g.PadH+at/g.KW, i%g.OutW()*g.StrideW-g.PadW+at%g.KW
		dx[i/plane*g.H*g.W+r*g.W+c] += d
	}
	return dx
}

// checkPool compares both passes with the reference, bit for bit.
func checkPool(t failer, p *Pool, g MaxPool, x, dy []float32) {
	t.Helper()
	wantY, wantChoice := referencePool(g, x)
	y, choice, dx := make([]float32, g.OutLen()), make([]uint16, g.OutLen()), make([]float32, g.InLen())
	for i := range dx {
		dx[i] = float32(math.NaN())
	}
	MaxPoolForward(p, g, x, y, choice)
	checkSame(t, "output", y, wantY)
	for i, c := range choice {
		if c != wantChoice[i] {
			t.Fatalf("choice %d is %d, want %d", i, c, wantChoice[i])
		}
	}
	MaxPoolBackward(p, g, dy, choice, dx)
	checkSame(t, "gradient", dx, referenceUnpool(g, dy, choice))
}

// Any geometry agrees with the definition, with ties, negative zeros, NaN and
// infinities among the entries.
func TestMaxPoolRandomGeometry(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	special := []float32{0, float32(math.Copysign(0, -1)), 1, 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
	onEachISA(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
			g := MaxPool{N: draw("n", 1, 3), C: draw("c", 1, 3), H: draw("h", 1, 7), W: draw("w", 1, 70), ReLU: rapid.Bool().Draw(rt, "relu")}
			if rapid.Bool().Draw(rt, "pairs") {
				g.KH, g.KW, g.StrideH, g.StrideW = 2, 2, 2, 2
			} else {
				g.KH, g.KW, g.StrideH, g.StrideW = draw("kh", 1, 4), draw("kw", 1, 4), draw("sh", 1, 3), draw("sw", 1, 3)
				g.PadH, g.PadW = draw("ph", 0, g.KH/2), draw("pw", 0, g.KW/2)
			}
			if g.Validate() != nil {
				rt.Skip("the window does not fit")
			}
			r := newRand(uint64(draw("seed", 0, 1<<20)))
			x, dy := randomFloats(r, g.InLen()), randomFloats(r, g.OutLen())
			for i := range x {
				if r.IntN(3) == 0 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			checkPool(rt, p, g, x, dy)
		})
	})
}

func TestMaxPoolGolden(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		for _, c := range golden.Read(t, "maxpool_*") {
			in := c.Shape("x")
			k, s, p := int(c.Setting("kernel")), int(c.Setting("stride")), int(c.Setting("padding"))
			g := MaxPool{N: in[0], C: in[1], H: in[2], W: in[3], KH: k, KW: k, StrideH: s, StrideW: s, PadH: p, PadW: p}
			y, choice, dx := make([]float32, g.OutLen()), make([]uint16, g.OutLen()), make([]float32, g.InLen())
			MaxPoolForward(nil, g, c.Floats("x"), y, choice)
			checkSame(t, c.Name+": output", y, c.Floats("out"))
			MaxPoolBackward(nil, g, c.Floats("grad_out"), choice, dx)
			checkNear(t, c.Name+": gradient", dx, c.Floats("grad_x"), 1e-6)
		}
	})
}

// ReLU inside of the pooling is ReLU before it, in both passes.
func TestMaxPoolReLU(t *testing.T) {
	g := MaxPool{N: 2, C: 3, H: 8, W: 34, KH: 2, KW: 2, StrideH: 2, StrideW: 2}
	r := newRand(1)
	x, dy := randomFloats(r, g.InLen()), randomFloats(r, g.OutLen())
	onEachISA(t, func(t *testing.T) {
		rectified := make([]float32, len(x))
		ReLU(rectified, x)
		want, wantDX, choice := make([]float32, len(dy)), make([]float32, len(x)), make([]uint16, len(dy))
		MaxPoolForward(nil, g, rectified, want, choice)
		MaxPoolBackward(nil, g, dy, choice, wantDX)
		ReLUBackward(wantDX, wantDX, rectified)

		fused := g
		fused.ReLU = true
		y, dx := make([]float32, len(dy)), make([]float32, len(x))
		MaxPoolForward(nil, fused, x, y, choice)
		MaxPoolBackward(nil, fused, dy, choice, dx)
		checkSame(t, "output", y, want)
		checkSame(t, "gradient", dx, wantDX)
	})
}

func TestMaxPoolValidate(t *testing.T) {
	good := MaxPool{N: 1, C: 2, H: 6, W: 6, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}
	for _, c := range []struct {
		change func(g *MaxPool)
		want   string
	}{
		{func(g *MaxPool) { g.C = 0 }, "channels 0, want at least 1"},
		{func(g *MaxPool) { g.PadH = 2 }, "padding 2x1, want at most half of the kernel 3x3"},
		{func(g *MaxPool) { g.KW = 9 }, "kernel 3x9 is larger than the padded input 8x8"},
		{func(g *MaxPool) { g.KH, g.KW = 1<<10, 1<<10 }, "less than"},
		{func(g *MaxPool) { g.N, g.H = 1<<30, 1<<30 }, "at most"},
	} {
		g := good
		c.change(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestMaxPoolAllocatesNothing(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	g := MaxPool{N: 3, C: 2, H: 5, W: 6, KH: 2, KW: 2, StrideH: 2, StrideW: 2}
	x, y, choice := make([]float32, g.InLen()), make([]float32, g.OutLen()), make([]uint16, g.OutLen())
	if n := steady.Allocs(5, func() {
		MaxPoolForward(p, g, x, y, choice)
		MaxPoolBackward(p, g, y, choice, x)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkMaxPool(b *testing.B) {
	p := NewPool(runtime.GOMAXPROCS(0))
	defer p.Close()
	for _, g := range []MaxPool{
		{N: 64, C: 32, H: 28, W: 28, KH: 2, KW: 2, StrideH: 2, StrideW: 2, ReLU: true},
		{N: 64, C: 64, H: 14, W: 14, KH: 2, KW: 2, StrideH: 2, StrideW: 2, ReLU: true},
		{N: 64, C: 128, H: 7, W: 7, KH: 2, KW: 2, StrideH: 2, StrideW: 2, ReLU: true},
		{N: 8, C: 64, H: 28, W: 28, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
	} {
		x := randomFloats(newRand(1), g.InLen())
		y, choice := make([]float32, g.OutLen()), make([]uint16, g.OutLen())
		shape := fmt.Sprintf("%dx%dx%dx%d_%d_s%d", g.N, g.C, g.H, g.W, g.KH, g.StrideH)
		b.Run("forward/"+shape, func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				MaxPoolForward(p, g, x, y, choice)
			}
		})
		b.Run("backward/"+shape, func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				MaxPoolBackward(p, g, y, choice, x)
			}
		})
	}
}
