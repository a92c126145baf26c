package kernel

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// winogradShapes are convolutions that are computed by tiles, with odd sizes,
// each padding, partial blocks and several chunks of the weights' gradient.
var winogradShapes = []Conv{
	convShapes["many channels"],
	convShapes["many channels, odd"],
	convShapes["many channels, no padding"],
	convShapes["many channels, many tiles"],
	convShapes["many channels, ragged"],
	square(70, 32, 1, 32, 3, 1, 1, 1, 1),
	square(33, 64, 3, 32, 3, 1, 2, 1, 1),
}

// Integers stay exact: each result is that of the definition.
func TestWinogradExact(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		var ws Workspace
		for i, g := range winogradShapes {
			if !winogradFits(g) {
				t.Fatalf("shape %d is not computed by tiles", i)
			}
			d := newExactConvData(g, 2)
			d.compute(nil, &ws)
			d.check(t, 0)
		}
	})
}

// So they do with any number of channels, size and padding; the workspaces are shared,
// so that what an earlier shape left behind a line's channels would be found.
func TestWinogradRandomGeometry(t *testing.T) {
	active := activeConv
	defer func() { activeConv = active }()
	ws := make([]Workspace, len(convISAs))
	rapid.Check(t, func(rt *rapid.T) {
		d := newExactConvData(drawTiles(rt), 2)
		for i, isa := range convISAs {
			activeConv = isa
			d.compute(nil, &ws[i])
			d.check(rt, 0)
		}
	})
}

// drawTiles draws a convolution that is computed by tiles.
func drawTiles(t *rapid.T) Conv {
	draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	g := square(1, draw("ci", leastChannels, 70), 1, draw("co", leastChannels, 30), 3, 1, 0, 1, 1)
	if rapid.Bool().Draw(t, "many out") {
		g.CI, g.CO = g.CO, g.CI
	}
	g.PadH, g.PadW = draw("ph", 0, 2), draw("pw", 0, 2)
	g.H, g.W = draw("h", max(1, 3-2*g.PadH), 12), draw("w", max(1, 3-2*g.PadW), 9)
	g.N = ceilDiv(leastTiles, ceilDiv(g.OutH(), 2)*ceilDiv(g.OutW(), 2))
	if !winogradFits(g) {
		t.Fatalf("%+v is not computed by tiles", g)
	}
	return g
}

func TestWinogradFits(t *testing.T) {
	for name, change := range map[string]func(g *Conv){
		"stride":        func(g *Conv) { g.StrideW = 2 },
		"dilation":      func(g *Conv) { g.DilH = 2 },
		"kernel":        func(g *Conv) { g.KH = 2 },
		"groups":        func(g *Conv) { g.Groups = 2 },
		"padding":       func(g *Conv) { g.PadW = 3 },
		"few channels":  func(g *Conv) { g.CO = 23 },
		"few inputs":    func(g *Conv) { g.CI = 16 },
		"a small batch": func(g *Conv) { g.N = 3 },
	} {
		g := square(5, 32, 8, 48, 3, 1, 1, 1, 1)
		if change(&g); winogradFits(g) {
			t.Errorf("another %s counts as fit", name)
		}
	}
}

// The assembly computes each product with the bits of Go, in whole vectors only.
func TestSandwichSameBits(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		for m, p := range winogradMatrices {
			out, in := len(p), len(p[0])
			const n, col = 48, 50
			src := randomFloats(newRand(uint64(m)), in*in*col+10)
			src[3], src[70] = inf, nan
			got, want := make([]float32, out*out*col+10), make([]float32, out*out*col+10)
			activeConv.sandwich(winogradMatrix(m), got, out*col, col, src, in*col, col, n)
			sandwichGo(p, want, out*col, col, src, in*col, col, n)
			for i := range got {
				if !sameBits(got[i], want[i]) {
					t.Fatalf("matrix %d: entry %d is %g, in Go %g", m, i, got[i], want[i])
				}
			}
		}
	})
}

func TestWinogradReLUAndBias(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		d := newConvData(convShapes["many channels, ragged"], 6)
		plane := d.OutH() * d.OutW()
		want := make([]float64, len(d.y))
		for _, relu := range []bool{false, true} {
			for _, bias := range [][]float32{nil, d.bias} {
				for i, v := range d.y {
					if bias == nil {
						v -= float64(d.bias[i/plane%d.CO])
					}
					if relu {
						v = max(v, 0)
					}
					want[i] = v
				}
				ConvForward(nil, d.Conv, d.x, d.w, bias, d.gotY, relu, nil)
				checkNear(t, fmt.Sprintf("relu %t, bias %t", relu, bias != nil), d.gotY, want, convTolerance)
			}
		}
	})
}

// A NaN reaches every result that it is part of, and none of another image.
func TestWinogradNaN(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		g := convShapes["many channels"]
		d := randomConvData(g, 7)
		hit := g.CI*g.H*g.W + 3*g.W + 2 // in image 1
		d.x[hit] = nan
		ConvForward(nil, g, d.x, d.w, d.bias, d.gotY, true, nil)
		image := len(d.gotY) / g.N
		for i, v := range d.gotY {
			if i/image != 1 && v != v {
				t.Fatalf("output %d of another image is NaN", i)
			}
		}
		g.eachProduct(func(in, _, out int) {
			if in == hit && !math.IsNaN(float64(d.gotY[out])) {
				t.Fatalf("output %d is %g, want NaN", out, d.gotY[out])
			}
		})
	})
}
