package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/internal/steady"
)

// onEachISA runs a test with every instruction set that the processor has.
func onEachISA(t *testing.T, f func(t *testing.T)) {
	active := activeConv
	defer func() { activeConv = active }()
	for _, isa := range convISAs {
		activeConv = isa
		t.Run(isa.name, f)
	}
}

const convTolerance = 1e-5

func (d *convData) check(t failer, tol float64) {
	t.Helper()
	d.checkGuards(t)
	checkNear(t, "output", d.gotY, d.y, tol)
	checkNear(t, "gradient of the input", d.gotDX, d.dx, tol)
	checkNear(t, "gradient of the weights", d.gotDW, d.dw, tol)
	checkNear(t, "gradient of the bias", d.gotDB, d.db, tol)
}

// convShapes are the shapes of real networks, small, and the corners.
var convShapes = map[string]Conv{
	"first layer of MNIST":            square(2, 1, 28, 32, 3, 1, 1, 1, 1),
	"second layer":                    square(1, 32, 14, 64, 3, 1, 1, 1, 1),
	"third layer":                     square(3, 64, 7, 70, 3, 1, 1, 1, 1),
	"residual":                        square(3, 16, 8, 16, 3, 1, 1, 1, 1),
	"residual, halved":                square(3, 16, 8, 32, 3, 2, 1, 1, 1),
	"halved to short lines":           square(3, 5, 3, 40, 3, 2, 1, 1, 1),
	"pointwise":                       square(2, 20, 9, 24, 1, 1, 0, 1, 1),
	"pointwise, halved":               square(2, 20, 9, 24, 1, 2, 0, 1, 1),
	"stem":                            square(1, 3, 20, 40, 7, 2, 3, 1, 1),
	"depthwise":                       square(2, 6, 9, 6, 3, 1, 1, 1, 6),
	"depthwise, halved":               square(3, 5, 20, 5, 3, 2, 1, 1, 5),
	"depthwise, dilated":              {N: 9, CI: 4, H: 9, W: 37, CO: 4, KH: 2, KW: 3, StrideH: 1, StrideW: 3, PadH: 1, PadW: 2, DilH: 3, DilW: 2, Groups: 4},
	"groups":                          square(5, 6, 5, 70, 3, 1, 1, 1, 2),
	"groups in place":                 square(9, 6, 4, 4, 2, 1, 0, 1, 2),
	"one entry":                       square(1, 1, 1, 1, 1, 1, 0, 1, 1),
	"kernel larger than the image":    square(2, 2, 2, 3, 5, 1, 2, 1, 1),
	"padding larger than the kernel":  square(2, 2, 4, 3, 2, 1, 3, 1, 1),
	"stride larger than the kernel":   square(2, 2, 11, 3, 2, 4, 0, 1, 1),
	"stride and dilation":             square(2, 3, 12, 4, 3, 2, 2, 3, 1),
	"batch in uneven parts":           square(19, 2, 4, 3, 3, 1, 1, 1, 1),
	"whole image":                     square(7, 3, 6, 33, 6, 1, 0, 1, 1),
	"kernel of six":                   square(2, 3, 9, 17, 6, 1, 2, 1, 1),
	"wide":                            {N: 2, CI: 3, H: 2, W: 37, CO: 5, KH: 1, KW: 11, StrideH: 1, StrideW: 1, PadH: 0, PadW: 4, DilH: 1, DilW: 1, Groups: 1},
	"tall":                            {N: 2, CI: 3, H: 19, W: 1, CO: 5, KH: 4, KW: 1, StrideH: 3, StrideW: 2, PadH: 1, PadW: 0, DilH: 2, DilW: 1, Groups: 1},
	"many channels":                   square(5, 32, 8, 48, 3, 1, 1, 1, 1),
	"many channels, odd":              square(5, 48, 7, 32, 3, 1, 1, 1, 1),
	"many channels, no padding":       {N: 4, CI: 32, H: 11, W: 6, CO: 32, KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadH: 0, PadW: 2, DilH: 1, DilW: 1, Groups: 1},
	"many channels, many tiles":       square(2, 32, 45, 32, 3, 1, 1, 1, 1),
	"many channels, ragged":           square(5, 43, 7, 25, 3, 1, 1, 1, 1),
	"different in the two directions": {N: 2, CI: 4, H: 9, W: 13, CO: 6, KH: 2, KW: 3, StrideH: 3, StrideW: 2, PadH: 1, PadW: 2, DilH: 2, DilW: 1, Groups: 2},
}

func TestConvShapes(t *testing.T) {
	data := map[string]*convData{}
	for name, g := range convShapes {
		if err := g.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data[name] = newConvData(g, 1)
	}
	onEachISA(t, func(t *testing.T) {
		var ws Workspace // shared: a shape must not depend on what came before
		for name, d := range data {
			t.Run(name, func(t *testing.T) {
				d.compute(nil, &ws)
				d.check(t, convTolerance)
			})
		}
	})
}

// planarCosts makes convolutions be computed plane by plane always, or only if depthwise.
var planarCosts = map[string]float64{"by planes": 0, "by channels": math.Inf(1)}

// onEachPath runs a test with convolutions computed by planes and by channels.
func onEachPath(t *testing.T, f func(t *testing.T)) {
	cost := planarCost
	defer func() { planarCost = cost }()
	for name, c := range planarCosts {
		planarCost = c
		t.Run(name, f)
	}
}

// Any geometry agrees exactly with the definition.
func TestConvRandomGeometry(t *testing.T) {
	cost := planarCost
	defer func() { planarCost = cost }()
	onEachISA(t, func(t *testing.T) {
		var ws Workspace
		rapid.Check(t, func(rt *rapid.T) {
			planarCost = planarCosts[rapid.SampledFrom([]string{"by planes", "by channels"}).Draw(rt, "path")]
			draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
			groups := draw("groups", 1, 2)
			g := Conv{
				N: draw("n", 1, 5), CI: groups * draw("ci", 1, 5), H: draw("h", 1, 6), W: draw("w", 1, 17),
				CO: groups * draw("co", 1, 35), KH: draw("kh", 1, 4), KW: draw("kw", 1, 8),
				StrideH: draw("sh", 1, 3), StrideW: draw("sw", 1, 3), PadH: draw("ph", 0, 3), PadW: draw("pw", 0, 3),
				DilH: draw("dh", 1, 2), DilW: draw("dw", 1, 3), Groups: groups,
			}
			if g.Validate() != nil {
				rt.Skip("the kernel does not fit")
			}
			d := newExactConvData(g, 2)
			d.compute(nil, &ws)
			d.check(rt, 0)
		})
	})
}

func TestConvGolden(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		for _, c := range golden.Read(t, "conv2d_*") {
			t.Run(c.Name, func(t *testing.T) {
				in, kernel := c.Shape("x"), c.Shape("weight")
				s, p, d := int(c.Setting("stride")), int(c.Setting("padding")), int(c.Setting("dilation"))
				g := Conv{
					N: in[0], CI: in[1], H: in[2], W: in[3], CO: kernel[0], KH: kernel[2], KW: kernel[3],
					StrideH: s, StrideW: s, PadH: p, PadW: p, DilH: d, DilW: d, Groups: int(c.Setting("groups")),
				}
				got := newConvData(g, 1)
				got.x, got.w, got.bias, got.dy = c.Floats("x"), c.Floats("weight"), c.Floats("bias"), c.Floats("grad_out")
				got.compute(nil, nil)
				checkNear(t, "output", got.gotY, c.Floats("out"), convTolerance)
				checkNear(t, "gradient of the input", got.gotDX, c.Floats("grad_x"), convTolerance)
				checkNear(t, "gradient of the weights", got.gotDW, c.Floats("grad_weight"), convTolerance)
				checkNear(t, "gradient of the bias", got.gotDB, c.Floats("grad_bias"), convTolerance)
				ConvBackwardBias(nil, g, got.dy, got.gotDB)
				checkNear(t, "gradient of the bias alone", got.gotDB, c.Floats("grad_bias"), convTolerance)
			})
		}
	})
}

// The reference's gradients are the derivatives of its output, which the
// kernels are held to: the loss sum(y*dy) is linear in every operand.
func TestConvReferenceGradients(t *testing.T) {
	d := newConvData(convShapes["different in the two directions"], 3)
	loss := func() float64 {
		d.reference()
		s := 0.0
		for i, v := range d.y {
			s += v * float64(d.dy[i])
		}
		return s
	}
	for _, c := range []struct {
		name     string
		operand  []float32
		gradient func() []float64
	}{
		{"input", d.x, func() []float64 { return d.dx }},
		{"weights", d.w, func() []float64 { return d.dw }},
		{"bias", d.bias, func() []float64 { return d.db }},
	} {
		for i := 0; i < len(c.operand); i += 1 + len(c.operand)/40 {
			old := c.operand[i]
			c.operand[i] = old + 1
			plus := loss()
			c.operand[i] = old - 1
			minus := loss()
			step := (float64(old+1) - float64(old-1)) // rounded as the operands were
			c.operand[i] = old
			loss()
			if got, want := (plus-minus)/step, c.gradient()[i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s %d: difference quotient %g, gradient %g", c.name, i, got, want)
			}
		}
	}
}

// Results have the same bits for any number of threads, at each repetition.
func TestConvSameBits(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		for name, g := range convShapes {
			t.Run(name, func(t *testing.T) {
				want := randomConvData(g, 4)
				want.compute(nil, nil)
				got := randomConvData(g, 4)
				for threads := 1; threads <= 3; threads++ {
					p := NewPool(threads)
					defer p.Close()
					var ws Workspace
					for range 2 {
						got.compute(p, &ws)
						checkSame(t, "output", got.gotY, want.gotY)
						checkSame(t, "gradient of the input", got.gotDX, want.gotDX)
						checkSame(t, "gradient of the weights", got.gotDW, want.gotDW)
						checkSame(t, "gradient of the bias", got.gotDB, want.gotDB)
					}
				}
			})
		}
	})
}

// Both sets of vector instructions give the same bits: each entry is one chain
// of fused multiply-adds.
func TestConvSameBitsOnEachISA(t *testing.T) {
	active := activeConv
	defer func() { activeConv = active }()
	for name, g := range convShapes {
		var first *convData
		for _, isa := range convISAs[1:] {
			activeConv = isa
			d := randomConvData(g, 9)
			d.compute(nil, nil)
			if first == nil {
				first = d
			}
			checkSame(t, name+": output", d.gotY, first.gotY)
			checkSame(t, name+": gradient of the input", d.gotDX, first.gotDX)
			checkSame(t, name+": gradient of the weights", d.gotDW, first.gotDW)
			checkSame(t, name+": gradient of the bias", d.gotDB, first.gotDB)
		}
	}
}

// An image's results do not depend on the batch that it comes in, as long as
// the batch does not decide how they are computed.
func TestConvImageAlone(t *testing.T) {
	checkImageAlone(t, convShapes["third layer"])
	checkImageAlone(t, convShapes["many channels, many tiles"])
}

func checkImageAlone(t *testing.T, g Conv) {
	t.Helper()
	d := randomConvData(g, 5)
	d.compute(nil, nil)
	one := g
	one.N = 1
	y, dx := make([]float32, one.OutLen()), make([]float32, one.InLen())
	for n := range g.N {
		ConvForward(nil, one, d.x[n*len(dx):], d.w, d.bias, y, false, nil)
		checkSame(t, "output", y, d.gotY[n*len(y):][:len(y)])
		ConvBackwardInput(nil, one, d.dy[n*len(y):], d.w, dx, nil)
		checkSame(t, "gradient of the input", dx, d.gotDX[n*len(dx):][:len(dx)])
	}
}

func TestConvReLUAndNoBias(t *testing.T) {
	onEachISA(t, func(t *testing.T) {
		d := newConvData(square(2, 3, 6, 40, 3, 1, 1, 1, 1), 6)
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

// A NaN reaches exactly the results that it is part of, through ReLU as well.
func TestConvNaN(t *testing.T) {
	onEachISA(t, func(t *testing.T) { onEachPath(t, testConvNaN) })
}

func testConvNaN(t *testing.T) {
	d := newConvData(square(3, 2, 6, 3, 3, 1, 1, 1, 1), 7)
	hit := 2*d.H*d.W + 3*d.W + 2 // in image 1, channel 0
	d.x[hit] = float32(math.NaN())
	isNaN := make([]bool, len(d.gotY))
	d.eachProduct(func(in, _, out int) { isNaN[out] = isNaN[out] || in == hit })
	ConvForward(nil, d.Conv, d.x, d.w, d.bias, d.gotY, true, nil)
	for i, v := range d.gotY {
		if (v != v) != isNaN[i] {
			t.Fatalf("output %d is %g, want NaN: %t", i, v, isNaN[i])
		}
	}
}

func TestConvSteadyStateAllocatesNothing(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	var ws Workspace
	for name, g := range convShapes {
		d := randomConvData(g, 8)
		d.compute(p, &ws)
		if allocs := steady.Allocs(5, func() { d.compute(p, &ws) }); allocs > 0 {
			t.Errorf("%s: %v allocations, want none", name, allocs)
		}
	}
}

// Slices that are too short panic before anything is written.
func TestConvShortSlices(t *testing.T) {
	g := square(2, 3, 6, 5, 3, 1, 1, 1, 1)
	short := func(x []float32) []float32 { return x[:len(x)-1] }
	for name, run := range map[string]func(d *convData){
		"input of forward":   func(d *convData) { ConvForward(nil, g, short(d.x), d.w, d.bias, d.gotY, false, nil) },
		"weights of forward": func(d *convData) { ConvForward(nil, g, d.x, short(d.w), d.bias, d.gotY, false, nil) },
		"bias of forward":    func(d *convData) { ConvForward(nil, g, d.x, d.w, short(d.bias), d.gotY, false, nil) },
		"output of forward":  func(d *convData) { ConvForward(nil, g, d.x, d.w, d.bias, short(d.gotY), false, nil) },
		"dy of the input":    func(d *convData) { ConvBackwardInput(nil, g, short(d.dy), d.w, d.gotDX, nil) },
		"dx of the input":    func(d *convData) { ConvBackwardInput(nil, g, d.dy, d.w, short(d.gotDX), nil) },
		"x of the weights":   func(d *convData) { ConvBackwardParams(nil, g, short(d.x), d.dy, d.gotDW, d.gotDB, nil) },
		"dw of the weights":  func(d *convData) { ConvBackwardParams(nil, g, d.x, d.dy, short(d.gotDW), d.gotDB, nil) },
		"db of the weights":  func(d *convData) { ConvBackwardParams(nil, g, d.x, d.dy, d.gotDW, short(d.gotDB), nil) },
	} {
		d := randomConvData(g, 1)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			run(d)
		}()
		for i, v := range d.guarded {
			if v == v {
				t.Fatalf("%s: entry %d was written", name, i)
			}
		}
	}
}

func TestConvValidate(t *testing.T) {
	good := square(2, 4, 8, 6, 3, 1, 1, 1, 2)
	for _, c := range []struct {
		change func(g *Conv)
		want   string
	}{
		{func(g *Conv) { g.N = 0 }, "batch size 0, want at least 1"},
		{func(g *Conv) { g.PadW = -1 }, "horizontal padding -1, want at least 0"},
		{func(g *Conv) { g.DilH = 0 }, "vertical dilation 0"},
		{func(g *Conv) { g.StrideW = 1 << 40 }, "horizontal stride"},
		{func(g *Conv) { g.Groups = 3 }, "multiples of the 3 groups"},
		{func(g *Conv) { g.KH = 11 }, "kernel 11x3 with dilation 1x1 is larger than the padded input 10x10"},
		{func(g *Conv) { g.CI, g.H, g.W = 1<<20, 1<<20, 1<<20 }, "at most"},
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
	if err := (Conv{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("error %v, want every problem", err)
	}
}
