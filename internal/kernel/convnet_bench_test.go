package kernel

import (
	"runtime"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// convnet is the MNIST convnet (32-64-128-625-10) without a graph: all that a
// training step computes, in this package's kernels.
type convnet struct {
	pool     *Pool
	batch    int
	convs    []convLayer
	fc1, fc2 linearLayer
	labels   []int32
}

// convLayer is a convolution, pooling and ReLU.
type convLayer struct {
	conv    Conv
	pool    MaxPool
	ws      Workspace
	w, b    param
	z, y    []float32
	dz, dy  []float32
	choices []uint16
}

type linearLayer struct {
	in, out int
	w, b    param
	y, dy   []float32
}

type param struct{ value, grad, velocity []float32 }

func newParam(n int) param {
	p := param{randomFloats(newRand(uint64(n)), n), make([]float32, n), make([]float32, n)}
	Scale(p.value, 0.05, p.value)
	return p
}

func newLinearLayer(batch, in, out int) linearLayer {
	return linearLayer{in, out, newParam(in * out), newParam(out), make([]float32, batch*out), make([]float32, batch*out)}
}

func newConvnet(p *Pool, batch int) *convnet {
	n := &convnet{pool: p, batch: batch, labels: make([]int32, batch)}
	hw, in := 28, 1
	for _, out := range []int{32, 64, 128} {
		g := square(batch, in, hw, out, 3, 1, 1, 1, 1)
		m := MaxPool{N: batch, C: out, H: hw, W: hw, KH: 2, KW: 2, StrideH: 2, StrideW: 2, ReLU: true}
		n.convs = append(n.convs, convLayer{
			conv: g, pool: m, w: newParam(g.WeightLen()), b: newParam(out),
			z: make([]float32, g.OutLen()), dz: make([]float32, g.OutLen()),
			y: make([]float32, m.OutLen()), dy: make([]float32, m.OutLen()), choices: make([]uint16, m.OutLen()),
		})
		hw, in = m.OutH(), out
	}
	n.fc1, n.fc2 = newLinearLayer(batch, 1152, 625), newLinearLayer(batch, 625, 10)
	return n
}

func (n *convnet) forward(x []float32) {
	for i := range n.convs {
		l := &n.convs[i]
		ConvForward(n.pool, l.conv, x, l.w.value, l.b.value, l.z, false, &l.ws)
		MaxPoolForward(n.pool, l.pool, l.z, l.y, l.choices)
		x = l.y
	}
	n.fc1.forward(n.pool, n.batch, x)
	AddBiasReLU(n.fc1.y, n.fc1.out, n.batch, n.fc1.b.value)
	n.fc2.forward(n.pool, n.batch, n.fc1.y)
	AddBias(n.fc2.y, n.fc2.out, n.batch, n.fc2.b.value)
}

func (l *linearLayer) forward(p *Pool, batch int, x []float32) {
	Gemm(p, false, true, batch, l.out, l.in, 1, x, l.in, l.w.value, l.in, 0, l.y, l.out)
}

func (l *linearLayer) backward(p *Pool, batch int, x, dx []float32) {
	Gemm(p, true, false, l.out, l.in, batch, 1, l.dy, l.out, x, l.in, 0, l.w.grad, l.in)
	ColumnSums(l.b.grad, l.dy, l.out, batch)
	Gemm(p, false, false, batch, l.in, l.out, 1, l.dy, l.out, l.w.value, l.in, 0, dx, l.in)
}

func (n *convnet) step(x []float32) (loss float64, err error) {
	n.forward(x)
	if loss, err = CrossEntropy(n.pool, n.fc2.y, n.labels, n.batch, n.fc2.out, nil, 0, n.fc2.dy); err != nil {
		return 0, err
	}
	last := len(n.convs) - 1
	n.fc2.backward(n.pool, n.batch, n.fc1.y, n.fc1.dy)
	ReLUBackward(n.fc1.dy, n.fc1.dy, n.fc1.y)
	n.fc1.backward(n.pool, n.batch, n.convs[last].y, n.convs[last].dy)
	for i := last; i >= 0; i-- {
		l := &n.convs[i]
		MaxPoolBackward(n.pool, l.pool, l.dy, l.choices, l.dz)
		if i == 0 {
			ConvBackwardParams(n.pool, l.conv, x, l.dz, l.w.grad, l.b.grad, &l.ws)
			break
		}
		ConvBackwardParams(n.pool, l.conv, n.convs[i-1].y, l.dz, l.w.grad, l.b.grad, &l.ws)
		ConvBackwardInput(n.pool, l.conv, l.dz, l.w.value, n.convs[i-1].dy, &l.ws)
	}
	n.update()
	return loss, nil
}

func (n *convnet) update() {
	s := SGDStep{LR: 0.01, Momentum: 0.9, Decay: 1e-4, Scale: 1}
	for _, p := range []param{n.fc1.w, n.fc1.b, n.fc2.w, n.fc2.b} {
		SGD(p.value, p.velocity, p.grad, s)
	}
	for i := range n.convs {
		for _, p := range []param{n.convs[i].w, n.convs[i].b} {
			SGD(p.value, p.velocity, p.grad, s)
		}
	}
}

// The kernels together learn: the loss on one batch falls to almost nothing,
// and no step allocates.
func TestConvnetLearns(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	n := newConvnet(p, 5)
	x := randomFloats(newRand(1), n.convs[0].conv.InLen())
	for i := range n.labels {
		n.labels[i] = int32(i)
	}
	var loss float64
	for range 60 {
		var err error
		if loss, err = n.step(x); err != nil {
			t.Fatal(err)
		}
	}
	if !(loss < 0.05) {
		t.Errorf("loss %v after 60 steps, want less than 0.05", loss)
	}
	if got := Correct(n.fc2.y, n.labels, n.batch, 10); got != n.batch {
		t.Errorf("%d of %d correct", got, n.batch)
	}
	if allocs := steady.Allocs(3, func() { loss, _ = n.step(x) }); allocs > 0 {
		t.Errorf("%v allocations in a step, want none", allocs)
	}
}

// BenchmarkConvnetStep is what a graph's training step is to be held against.
func BenchmarkConvnetStep(b *testing.B) {
	p := NewPool(runtime.GOMAXPROCS(0))
	defer p.Close()
	n := newConvnet(p, 64)
	x := randomFloats(newRand(1), n.convs[0].conv.InLen())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.step(x); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n.batch*b.N)/b.Elapsed().Seconds(), "images/s")
}
