package kernel

import (
	"math"
	"math/rand/v2"
)

// convData is a convolution with operands, gradients and what they must be.
type convData struct {
	Conv
	x, w, bias, dy            []float32
	y, dx, dw, db             []float64
	gotY, gotDX, gotDW, gotDB []float32
	guarded                   []float32 // the memory of the results and around them
}

// guard is how many entries around each result must stay NaN.
const guard = 40

// results makes the result slices anew, full of NaN, so that an entry that is
// not written is found, as one written outside.
func (d *convData) results() {
	sizes := []int{d.OutLen(), d.InLen(), d.WeightLen(), d.CO}
	total := guard
	for _, n := range sizes {
		total += n + guard
	}
	if d.guarded == nil {
		d.guarded = make([]float32, total)
	}
	for i := range d.guarded {
		d.guarded[i] = float32(math.NaN())
	}
	at := guard
	for i, x := range []*[]float32{&d.gotY, &d.gotDX, &d.gotDW, &d.gotDB} {
		*x = d.guarded[at : at+sizes[i]]
		at += sizes[i] + guard
	}
}

// checkGuards fails if something was written around the results.
func (d *convData) checkGuards(t failer) {
	t.Helper()
	written := 0
	for _, v := range d.guarded {
		if v == v {
			written++
		}
	}
	if want := d.OutLen() + d.InLen() + d.WeightLen() + d.CO; written != want {
		t.Fatalf("%d entries written, want the %d of the results and none around", written, want)
	}
}

func randomFloats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// randomConvData fills the operands at random and computes no results.
func randomConvData(g Conv, seed uint64) *convData {
	r := newRand(seed)
	d := &convData{Conv: g, x: randomFloats(r, g.InLen()), w: randomFloats(r, g.WeightLen()), bias: randomFloats(r, g.CO), dy: randomFloats(r, g.OutLen())}
	d.results()
	return d
}

// newConvData fills the operands at random and computes the results directly
// from the definition, in float64.
func newConvData(g Conv, seed uint64) *convData {
	d := randomConvData(g, seed)
	d.reference()
	return d
}

// newExactConvData fills the operands with small integers: every sum is exact
// in float32, in any order.
func newExactConvData(g Conv, seed uint64) *convData {
	d := randomConvData(g, seed)
	for _, x := range [][]float32{d.x, d.w, d.bias, d.dy} {
		for i, v := range x {
			x[i] = float32(math.Round(float64(v)))
		}
	}
	d.reference()
	return d
}

func (d *convData) reference() {
	d.y, d.dx, d.dw, d.db = make([]float64, d.OutLen()), make([]float64, d.InLen()), make([]float64, d.WeightLen()), make([]float64, d.CO)
	plane := d.OutH() * d.OutW()
	for i := range d.y {
		o := i / plane % d.CO
		d.y[i] = float64(d.bias[o])
		d.db[o] += float64(d.dy[i])
	}
	d.eachProduct(func(in, weight, out int) {
		d.y[out] += float64(d.x[in]) * float64(d.w[weight])
		d.dx[in] += float64(d.dy[out]) * float64(d.w[weight])
		d.dw[weight] += float64(d.dy[out]) * float64(d.x[in])
	})
}

// eachProduct calls f with the indices of every product x[in] * w[weight] that
// is added to y[out].
func (g Conv) eachProduct(f func(in, weight, out int)) {
	oh, ow, ci := g.OutH(), g.OutW(), g.CI/g.Groups
	for i := range g.N * g.CO * ci * g.KH * g.KW {
		q := i % g.KW
		p := i / g.KW % g.KH
		c := i / g.KW / g.KH % ci
		o := i / g.KW / g.KH / ci % g.CO
		n := i / g.KW / g.KH / ci / g.CO
		channel := o/(g.CO/g.Groups)*ci + c
		for r := range oh {
			for s := range ow {
				y, x := r*g.StrideH-g.PadH+p*g.DilH, s*g.StrideW-g.PadW+q*g.DilW
				if y >= 0 && y < g.H && x >= 0 && x < g.W {
					f(((n*g.CI+channel)*g.H+y)*g.W+x, ((o*ci+c)*g.KH+p)*g.KW+q, ((n*g.CO+o)*oh+r)*ow+s)
				}
			}
		}
	}
}

// compute runs the kernels.
func (d *convData) compute(p *Pool, ws *Workspace) {
	d.results()
	ConvForward(p, d.Conv, d.x, d.w, d.bias, d.gotY, false, ws)
	ConvBackwardInput(p, d.Conv, d.dy, d.w, d.gotDX, ws)
	ConvBackwardParams(p, d.Conv, d.x, d.dy, d.gotDW, d.gotDB, ws)
}

// square returns a square convolution.
func square(n, ci, hw, co, k, stride, pad, dil, groups int) Conv {
	return Conv{
		N: n, CI: ci, H: hw, W: hw, CO: co, KH: k, KW: k, StrideH: stride, StrideW: stride,
		PadH: pad, PadW: pad, DilH: dil, DilW: dil, Groups: groups,
	}
}
