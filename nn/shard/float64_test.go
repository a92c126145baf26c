package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// The mathematics of placed layers in float64, where rounding leaves no doubt: a
// network of two convolutions (the second with a stride) and a linear layer, trained
// with and without the code. The linear layer is a convolution of 1x1.

// trained64 is a layer in training, wherever its products are made.
type trained64 interface {
	geometry() convolution
	forward(x []float64) []float64
	// backward returns dX and makes the update.
	backward(x, dy []float64, u coded.Update) (dx []float64)
}

// layer64 is a layer with its weights; coded, it has those of the slots only.
type layer64 struct {
	convolution
	w, v  []float64
	slots []slot64
	code  *coded.Code
	dec   *coded.Decoder
	alive shard.Survivors
}

// slot64 is what a slot holds: F and R with their momenta.
type slot64 struct{ f, fv, r, rv []float64 }

func newLayer64(c convolution, rng *rand.Rand) *layer64 {
	l := &layer64{convolution: c, w: make([]float64, c.weights()), v: make([]float64, c.weights())}
	for i := range l.w {
		l.w[i] = rng.NormFloat64() / math.Sqrt(float64(c.In/c.Groups*c.KernelH*c.KernelW))
	}
	return l
}

// place encodes the weights. The weights are forgotten.
func (l *layer64) place(code *coded.Code, alive shard.Survivors) {
	l.code, l.dec, l.alive = code, coded.NewDecoder(code, coded.DecoderConfig{}), alive
	out, in := l.cuts()
	for slot := range code.N() {
		f, r := encode64(l.w, l.Groups, out, code.Row(slot)), encode64(l.w, l.Out, in, code.Row(slot))
		l.slots = append(l.slots, slot64{f, make([]float64, len(f)), r, make([]float64, len(r))})
	}
	l.w, l.v = nil, nil
}

// cuts returns how the channels of a group are cut.
func (l *layer64) cuts() (out, in coded.Partition) {
	k := l.code.K()
	return coded.Blocks(l.Out/l.Groups, k), coded.Blocks(l.In/l.Groups, k)
}

// copies returns the geometries of the convolutions with F and with R.
func (l *layer64) copies() (f, r convolution) {
	out, in := l.cuts()
	f, r = l.convolution, l.convolution
	f.Out, r.In = l.Groups*out.Size, l.Groups*in.Size
	return f, r
}

// encode64 combines the blocks of features of every line of x.
func encode64(x []float64, lines int, p coded.Partition, row []float64) []float64 {
	each := len(x) / lines / p.Total
	y := make([]float64, lines*p.Size*each)
	for line := range lines {
		for j, g := range row {
			lo, hi := p.Bounds(j)
			for i := range (hi - lo) * each {
				y[line*p.Size*each+i] += g * x[(line*p.Total+lo)*each+i]
			}
		}
	}
	return y
}

// decode64 is its inverse, from some slots.
func (l *layer64) decode64(lines int, p coded.Partition, round coded.Round, result func(slot int) []float64) []float64 {
	have := l.alive(l.code, round, 0)
	w, err := l.dec.Weights(have)
	if err != nil {
		panic(err)
	}
	var x []float64
	for t, slot := range have {
		y := result(slot)
		each := len(y) / lines / p.Size
		if x == nil {
			x = make([]float64, lines*p.Total*each)
		}
		for line := range lines {
			for j := range p.K {
				lo, hi := p.Bounds(j)
				for i := range (hi - lo) * each {
					x[(line*p.Total+lo)*each+i] += w.D[j][t] * y[line*p.Size*each+i]
				}
			}
		}
	}
	return x
}

func (c convolution) forward64(x, w []float64) []float64 {
	y := make([]float64, volume(c.outShape()))
	c.each(func(i, j, k int) { y[k] += x[i] * w[j] })
	return y
}

func (c convolution) backward64(dy, w []float64) []float64 {
	dx := make([]float64, c.n*c.In*c.h*c.w)
	c.each(func(i, j, k int) { dx[i] += dy[k] * w[j] })
	return dx
}

func (c convolution) gradient64(x, dy []float64) []float64 {
	dw := make([]float64, c.weights())
	c.each(func(i, j, k int) { dw[j] += x[i] * dy[k] })
	return dw
}

func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (l *layer64) geometry() convolution { return l.convolution }

func (l *layer64) forward(x []float64) []float64 {
	if l.slots == nil {
		return l.forward64(x, l.w)
	}
	out, _ := l.cuts()
	f, _ := l.copies()
	return l.decode64(l.n*l.Groups, out, coded.Round{Product: coded.Forward}, func(slot int) []float64 { return f.forward64(x, l.slots[slot].f) })
}

func (l *layer64) backward(x, dy []float64, u coded.Update) (dx []float64) {
	if l.slots == nil {
		dx = l.backward64(dy, l.w)
		step64(l.w, l.v, l.gradient64(x, dy), u)
		return dx
	}
	out, in := l.cuts()
	f, r := l.copies()
	dx = l.decode64(l.n*l.Groups, in, coded.Round{Product: coded.Backward}, func(slot int) []float64 { return r.backward64(dy, l.slots[slot].r) })
	for slot, s := range l.slots {
		row := l.code.Row(slot)
		step64(s.f, s.fv, f.gradient64(x, encode64(dy, l.n*l.Groups, out, row)), u)
		step64(s.r, s.rv, r.gradient64(encode64(x, l.n*l.Groups, in, row), dy), u)
	}
	return dx
}

// weight returns the weights, decoded from F or from R.
func (l *layer64) weight(fromR bool) []float64 {
	if l.slots == nil {
		return l.w
	}
	out, in := l.cuts()
	if fromR {
		return l.decode64(l.Out, in, coded.Round{}, func(slot int) []float64 { return l.slots[slot].r })
	}
	return l.decode64(l.Groups, out, coded.Round{}, func(slot int) []float64 { return l.slots[slot].f })
}

func step64(w, v, g []float64, u coded.Update) {
	for i := range w {
		d := u.Scale*g[i] + u.Decay*w[i]
		v[i] = u.Momentum*v[i] + d
		w[i] -= u.LR * (d + u.Momentum*v[i]) // Nesterov
	}
}

// train64 makes steps of a classification of random images and returns the losses.
func train64[L trained64](layers []L, u coded.Update) (losses []float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := layers[0].geometry()
	images := make([]float64, 16*c.In*c.h*c.w)
	for i := range images {
		images[i] = rng.NormFloat64()
	}
	for step := range steps64 {
		u.Step = step + 1
		at := step % (16 / c.n) * c.n
		x := images[at*c.In*c.h*c.w : (at+c.n)*c.In*c.h*c.w]
		inputs, sums := [][]float64{x}, [][]float64{}
		for i, l := range layers {
			z := l.forward(inputs[i])
			sums, inputs = append(sums, z), append(inputs, silu(z))
		}
		last := len(layers) - 1
		loss, dy := crossEntropy64(sums[last], c.n, func(i int) int { return (at + i) % 5 })
		for i := last; i >= 0; i-- {
			if i < last {
				for j, z := range sums[i] {
					s := 1 / (1 + math.Exp(-z))
					dy[j] *= s * (1 + z*(1-s))
				}
			}
			dy = layers[i].backward(inputs[i], dy, u)
		}
		losses = append(losses, loss)
	}
	return losses
}

func silu(z []float64) []float64 {
	y := make([]float64, len(z))
	for i, v := range z {
		y[i] = v / (1 + math.Exp(-v))
	}
	return y
}

func crossEntropy64(z []float64, n int, label func(i int) int) (loss float64, dz []float64) {
	classes := len(z) / n
	dz = make([]float64, len(z))
	for i := range n {
		var sum float64
		for j := range classes {
			sum += math.Exp(z[i*classes+j])
		}
		loss += (math.Log(sum) - z[i*classes+label(i)]) / float64(n)
		for j := range classes {
			dz[i*classes+j] = math.Exp(z[i*classes+j]) / sum / float64(n)
		}
		dz[i*classes+label(i)] -= 1 / float64(n)
	}
	return loss, dz
}

// steps64 is how many steps are made, after which the losses and weights are compared.
const (
	steps64 = 300
	agree64 = 1e-12
)

var update64 = coded.Update{LR: 0.03, Momentum: 0.9, Decay: 1e-3, Scale: 1, Nesterov: true}

// network64 returns the layers, the second of which has so many groups.
func network64(groups int) []*layer64 {
	conv := func(in, out, h, groups, stride int) convolution {
		c := conv3x3(in, out)
		c.Groups, c.Stride = groups, stride
		return convolution{c, 4, h, h}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	full := convolution{matrix11(12*4, 9), 4, 1, 1}
	return []*layer64{newLayer64(conv(6, 12, 3, 1, 1), rng), newLayer64(conv(12, 12, 3, groups, 2), rng), newLayer64(full, rng)}
}

// trainLocal64 trains the uncoded layers.
func trainLocal64(t *testing.T, layers []*layer64) (losses []float64) {
	t.Helper()
	losses = train64(layers, update64)
	if !(losses[steps64-1] < losses[0]/10) {
		t.Fatalf("loss %v after %v: nothing was learnt", losses[steps64-1], losses[0])
	}
	return losses
}

// compareLosses64 compares those of placed layers with those of local ones.
func compareLosses64(t *testing.T, got, want []float64) {
	t.Helper()
	for i, loss := range got {
		if !(math.Abs(loss-want[i]) <= agree64) {
			t.Fatalf("step %d: loss differs by %.1e, want at most %g", i+1, loss-want[i], agree64)
		}
	}
}

func TestResidentTrainingIsExact(t *testing.T) {
	local := network64(2)
	want := trainLocal64(t, local)
	for _, spec := range []coded.Spec{trigonometric(6, 4), trigonometric(8, 6), {Name: "systematic-trigonometric", N: 6, K: 4}} {
		t.Run(fmt.Sprint(spec), func(t *testing.T) {
			placed := network64(2)
			code, alive := newCode(t, spec), shard.RandomSurvivors(9)
			for _, l := range placed {
				l.place(code, alive)
			}
			compareLosses64(t, train64(placed, update64), want)
			for i, l := range placed {
				for _, fromR := range []bool{false, true} {
					if d := apart64(l.weight(fromR), local[i].w); !(d <= agree64) {
						t.Errorf("layer %d, from R %v: weights differ by %.1e, want at most %g", i, fromR, d, agree64)
					}
				}
			}
		})
	}
}

// apart64 is the largest difference over the largest entry of want.
func apart64(got, want []float64) float64 {
	var d, most float64
	for i, v := range want {
		d, most = max(d, math.Abs(got[i]-v)), max(most, math.Abs(v))
	}
	return d / most
}
