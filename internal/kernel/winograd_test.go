package kernel

import (
	"fmt"
	"math"
	"slices"
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

// onEachTile runs a test with small tiles only, and with large ones where they take
// fewer products.
func onEachTile(t *testing.T, f func(t *testing.T, tolerance float64)) {
	least := leastWideTiles
	defer func() { leastWideTiles = least }()
	for _, c := range []struct {
		name      string
		least     int
		tolerance float64
	}{
		{"small", math.MaxInt, 0}, // integers stay exact
		{"large", 1, convTolerance},
	} {
		leastWideTiles = c.least
		t.Run(c.name, func(t *testing.T) { f(t, c.tolerance) })
	}
}

// Each result is that of the definition.
func TestWinogradShapes(t *testing.T) {
	onEachTile(t, func(t *testing.T, tolerance float64) {
		for i, g := range winogradShapes {
			if !winogradFits(g) {
				t.Fatalf("shape %d is not computed by tiles", i)
			}
			d := newExactConvData(g, 2)
			onEachISA(t, func(t *testing.T) {
				d.compute(nil, nil)
				d.check(t, tolerance)
			})
		}
	})
}

// So it is with any number of channels, size and padding; the workspaces are shared,
// so that what an earlier shape left behind a line's channels would be found.
func TestWinogradRandomGeometry(t *testing.T) {
	active := activeConv
	defer func() { activeConv = active }()
	onEachTile(t, func(t *testing.T, tolerance float64) {
		ws := make([]Workspace, len(convISAs))
		rapid.Check(t, func(rt *rapid.T) {
			d := newExactConvData(drawTiles(rt), 2)
			for i, isa := range convISAs {
				activeConv = isa
				d.compute(nil, &ws[i])
				d.check(rt, tolerance)
			}
		})
	})
}

// drawTiles draws a convolution that is computed by tiles.
func drawTiles(t *rapid.T) Conv {
	draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	g := square(1, draw("ci", leastOfBoth-leastChannels, 50), 1, draw("co", leastChannels, 26), 3, 1, 0, 1, 1)
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

func TestWinogradForm(t *testing.T) {
	for _, c := range []struct{ n, h, w, tile int }{
		{8, 8, 8, 4},
		{7, 8, 8, 2},  // few tiles
		{64, 7, 7, 4}, // 4 large tiles for 16 small ones
		{64, 14, 14, 4},
		{64, 6, 6, 2},  // as many products: the more exact one
		{64, 16, 1, 2}, // most of a large tile is outside
		{64, 2, 16, 2},
	} {
		if f := winogradFormOf(c.n, c.h, c.w); f.tile != c.tile {
			t.Errorf("%d planes of %dx%d: tiles of %d, want %d", c.n, c.h, c.w, f.tile, c.tile)
		}
	}
}

// The matrices are those of the algorithm, y_i = sum over k of d_(i+k) w_k, for each d and
// w that is a unit vector; flipped weights exchange rows of G w; and transposes are.
func TestWinogradMatrices(t *testing.T) {
	for f := range winogradForms {
		form := &winogradForms[f]
		b, a, g := form.matrices[winogradB], form.matrices[winogradA], form.matrices[winogradG]
		for i := range form.tile {
			for e := range form.side {
				for k := range 3 {
					y := 0.0
					for p := range form.side {
						y += float64(a[i][p]) * float64(g[p][k]) * float64(b[p][e])
					}
					want := 0.0
					if e == i+k {
						want = 1
					}
					if math.Abs(y-want) > 1e-6 {
						t.Errorf("tile %d: entry %d and tap %d are weighted with %g in result %d, want %g", form.tile, e, k, y, i, want)
					}
				}
			}
		}
		for p, row := range g {
			for k, v := range row {
				if form.matrices[winogradGT][k][p] != v || g[form.flip[p]][2-k] != v {
					t.Errorf("tile %d: G^T or the flipped G has another entry (%d,%d)", form.tile, p, k)
				}
			}
		}
		for i, row := range a {
			for p, v := range row {
				if form.matrices[winogradAT][p][i] != v {
					t.Errorf("tile %d: A has another entry (%d,%d)", form.tile, p, i)
				}
			}
		}
	}
}

// The rounding error of large tiles is about twice that of the definition, where the
// points 0, +-1 and +-2 would have several times as much.
func TestWinogradRounding(t *testing.T) {
	d := newConvData(square(2, 128, 16, 24, 3, 1, 1, 1, 1), 11)
	if winogradFormOf(d.N, d.H, d.W).tile != 4 {
		t.Fatal("computed by small tiles")
	}
	onEachISA(t, func(t *testing.T) {
		d.compute(nil, nil)
		d.check(t, 3e-6)
	})
}

// Of one number, weights are transformed once for each direction; of another, or none, anew.
func TestWorkspaceWeights(t *testing.T) {
	d := newConvData(convShapes["many channels, ragged"], 12)
	other := newConvData(d.Conv, 13)
	copy(other.x, d.x)
	copy(other.dy, d.dy)
	other.reference()
	weights := slices.Clone(d.w)
	var ws Workspace
	products := func(number uint64, w []float32, want *convData) {
		t.Helper()
		ws.Weights = number
		copy(d.w, w)
		for range 2 {
			ConvForward(nil, d.Conv, d.x, d.w, d.bias, d.gotY, false, &ws)
			ConvBackwardInput(nil, d.Conv, d.dy, d.w, d.gotDX, &ws)
			for i := range d.gotY { // without the bias, in which the two differ
				d.gotY[i] += want.bias[i/(d.OutH()*d.OutW())%d.CO] - d.bias[i/(d.OutH()*d.OutW())%d.CO]
			}
			checkNear(t, "output", d.gotY, want.y, convTolerance)
			checkNear(t, "gradient of the input", d.gotDX, want.dx, convTolerance)
		}
	}
	products(1, weights, d)
	products(1, other.w, d) // not looked at
	products(2, other.w, other)
	products(0, weights, d)
	products(0, other.w, other)
	products(2, other.w, other)
}

func TestWinogradFits(t *testing.T) {
	for name, change := range map[string]func(g *Conv){
		"stride":        func(g *Conv) { g.StrideW = 2 },
		"dilation":      func(g *Conv) { g.DilH = 2 },
		"kernel":        func(g *Conv) { g.KH = 2 },
		"groups":        func(g *Conv) { g.Groups = 2 },
		"padding":       func(g *Conv) { g.PadW = 3 },
		"few channels":  func(g *Conv) { g.CO = 15 },
		"few inputs":    func(g *Conv) { g.CI = 15 },
		"few of both":   func(g *Conv) { g.CI, g.CO = 16, 23 },
		"a small batch": func(g *Conv) { g.N = 3 },
	} {
		g := square(5, 32, 8, 48, 3, 1, 1, 1, 1)
		if change(&g); winogradFits(g) {
			t.Errorf("another %s counts as fit", name)
		}
	}
}

// The assembly computes what Go does, in whole vectors only: with small tiles the same bits;
// with large ones, for which it takes fused multiply-adds, nearly.
func TestSandwich(t *testing.T) {
	near := func(x, y float32) bool {
		return x == y || x != x && y != y || math.Abs(float64(x-y)) < 1e-5
	}
	agree := map[int]func(x, y float32) bool{2: sameBits, 4: near}
	for f := range winogradForms {
		form := &winogradForms[f]
		for m, p := range form.matrices {
			out, in := len(p), len(p[0])
			const n, col = 48, 50
			src := randomFloats(newRand(uint64(m)), in*in*col+10)
			src[3], src[70] = inf, nan
			want := make([]float32, out*out*col+10)
			sandwichGo(p, want, out*col, col, src, in*col, col, n)
			for _, isa := range convISAs {
				got := make([]float32, len(want))
				isa.sandwich(form, winogradMatrix(m), got, out*col, col, src, in*col, col, n)
				for i := range got {
					if !agree[form.tile](got[i], want[i]) {
						t.Fatalf("%s, tile %d, matrix %d: entry %d is %g, in Go %g", isa.name, form.tile, m, i, got[i], want[i])
					}
				}
			}
		}
	}
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
	onEachTile(t, func(t *testing.T, _ float64) { onEachISA(t, testWinogradNaN) })
}

func testWinogradNaN(t *testing.T) {
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
}
