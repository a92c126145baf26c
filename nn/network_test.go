package nn

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/internal/steady"
)

func newNetwork(t testing.TB, m Module, shape []int, c Config) *Network {
	t.Helper()
	net, err := NewNetwork(m, shape, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	return net
}

// batchFor returns a batch of the small network's size, the same for a seed.
func batchFor(shape []int, n int, seed uint64) ([]float32, []int32) {
	rng := newRand(seed)
	labels := make([]int32, n)
	for i := range labels {
		labels[i] = int32(rng.IntN(3))
	}
	return normals(rng, n*size(shape)), labels
}

// descend is the simplest optimiser.
func descend(net *Network, lr float32) {
	for _, p := range net.Params() {
		for i, g := range p.Grad {
			p.Value.Data[i] -= lr * g
		}
	}
}

func flatGrads(net *Network) []float32 {
	var all []float32
	for _, p := range net.Params() {
		all = append(all, p.Grad...)
	}
	return all
}

func TestTrainingLearns(t *testing.T) {
	rng, shape := newRand(2), []int{2, 8, 6}
	model := Sequential{
		NewConv2d(rng, 2, 8, 3, Conv2dConfig{Padding: 1}), ReLU{}, MaxPool2d{Kernel: 2}, Flatten{}, NewLinear(rng, 8*4*3, 3),
	}
	net := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels := batchFor(shape, 12, 1)
	for i, label := range labels { // a plane of another mean for each class
		for j := range size(shape) {
			x[i*size(shape)+j] = x[i*size(shape)+j]/4 + float32(label) - 1
		}
	}
	first, _, err := net.Train(t.Context(), 1, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	var last float64
	var correct int
	for step := range 60 {
		descend(net, 0.1)
		if last, correct, err = net.Train(t.Context(), step+2, x, labels); err != nil {
			t.Fatal(err)
		}
	}
	if last > first/10 || correct != len(labels) {
		t.Errorf("loss %v after 60 steps, %v before; %d of %d correct", last, first, correct, len(labels))
	}
}

// TestEvaluateInParts: the result does not depend on how a set is cut into
// batches, the last one smaller; each batch size has a graph of its own.
func TestEvaluateInParts(t *testing.T) {
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels := batchFor(shape, 10, 2)
	whole, wholeCorrect, err := net.Evaluate(t.Context(), x, labels)
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{1, 3, 4, 7} {
		sum, correct := 0.0, 0
		for at := 0; at < len(labels); at += batch {
			end := min(at+batch, len(labels))
			s, c, err := net.Evaluate(t.Context(), x[at*size(shape):end*size(shape)], labels[at:end])
			if err != nil {
				t.Fatal(err)
			}
			sum, correct = sum+s, correct+c
		}
		if math.Abs(sum-whole) > 1e-5*whole || correct != wholeCorrect {
			t.Errorf("batches of %d: loss %v, %d correct; want %v, %d", batch, sum, correct, whole, wholeCorrect)
		}
	}
}

// TestTrainingKeepsEvaluationApart: an evaluation between steps changes
// nothing, and sees the parameters as the steps have left them.
func TestTrainingKeepsEvaluationApart(t *testing.T) {
	losses := func(evaluate bool) (list []float64) {
		model, shape := smallNet()
		net := newNetwork(t, model, shape, Config{Threads: 1})
		x, labels := batchFor(shape, 6, 3)
		for step := range 5 {
			if evaluate {
				sum, _, err := net.Evaluate(t.Context(), x, labels)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if got := sum / float64(len(labels)); math.Abs(got-list[step]) > 1e-6*got {
						t.Errorf("step %d: evaluated loss %v, trained %v", step, got, list[step])
					}
				}()
			}
			loss, _, err := net.Train(t.Context(), step+1, x, labels)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, loss)
			descend(net, 0.1)
		}
		return list
	}
	if a, b := losses(false), losses(true); !slices.Equal(a, b) {
		t.Errorf("losses %v with evaluations between, %v without", b, a)
	}
}

// TestSameBits: neither chance nor the number of threads changes a bit. (Package
// models has the same for a large model.)
func TestSameBits(t *testing.T) {
	run := func(threads int) (grads []float32) {
		model, shape := smallNet()
		net := newNetwork(t, model, shape, Config{Threads: threads})
		for step := range 6 {
			x, labels := batchFor(shape, 5+step%2, uint64(step))
			if _, _, err := net.Train(t.Context(), step+1, x, labels); err != nil {
				t.Fatal(err)
			}
			grads = append(grads, flatGrads(net)...)
			descend(net, 0.1)
		}
		return grads
	}
	want := run(1)
	for _, threads := range []int{1, 2, 3, 5} {
		if !slices.Equal(run(threads), want) {
			t.Errorf("%d threads: the gradients are not those of one", threads)
		}
	}
}

// TestAccumulate: the gradient of a batch is the mean of its parts'.
func TestAccumulate(t *testing.T) {
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels := batchFor(shape, 12, 4)
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	want := flatGrads(net)
	third := 4 * size(shape)
	for round := range 2 { // the second finds the sums of the first
		if _, _, err := net.Train(t.Context(), 2, x[:third], labels[:4]); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < 3; i++ {
			if _, _, err := net.Accumulate(t.Context(), 2, x[i*third:(i+1)*third], labels[4*i:4*i+4]); err != nil {
				t.Fatal(err)
			}
		}
		got := flatGrads(net)
		kernel.Scale(got, 1.0/3, got)
		wantClose(t, fmt.Sprintf("round %d: accumulated gradient", round), got, want, 1e-5)
	}
	sum := flatGrads(net)
	if _, _, err := net.Accumulate(t.Context(), 3, x[:third], []int32{0, 1, 2, 3}); err == nil {
		t.Error("label 3 of 3 classes is taken")
	}
	if !slices.Equal(flatGrads(net), sum) {
		t.Error("a failed Accumulate has changed the gradients")
	}
}

func TestAccumulateWithoutTrain(t *testing.T) {
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 1})
	x, labels := batchFor(shape, 4, 4)
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	want := flatGrads(net)
	net.dropGrads()
	if _, _, err := net.Accumulate(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(flatGrads(net), want) {
		t.Error("Accumulate onto nothing differs from Train")
	}
}

func TestFrozenAndFirstLayer(t *testing.T) {
	model, shape := smallNet()
	frozen := model[3].(*Conv2d)
	frozen.Weight.Frozen = true
	net := newNetwork(t, model, shape, Config{Threads: 1})
	x, labels := batchFor(shape, 4, 5)
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	for _, p := range net.Params() {
		if got, want := p.Grad != nil, p.Param != frozen.Weight; got != want {
			t.Errorf("%s has a gradient: %v, want %v", p.Name, got, want)
		}
	}
	var backward []string
	for _, o := range net.programs[0].g.ops {
		if strings.HasSuffix(o.kind, "backward input") || strings.HasSuffix(o.kind, "backward weight") {
			backward = append(backward, o.String())
		}
	}
	// No input gradient of layer 0, no weight gradient of the frozen layer 3.
	want := []string{
		"12: linear backward input", "12: linear backward weight", "10: linear backward input", "10: linear backward weight",
		"5: conv2d backward input", "5: conv2d backward weight", "3: conv2d backward input", "0: conv2d backward weight",
	}
	if !slices.Equal(backward, want) {
		t.Errorf("backward operations %q, want %q", backward, want)
	}
}

// twice applies one Linear two times.
type twice struct{ FC *Linear }

func (m twice) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return Chain(g, x, m.FC, ReLU{}, m.FC)
}

func TestParameterUsedTwice(t *testing.T) {
	fc := NewLinear(newRand(8), 4, 4)
	net := newNetwork(t, twice{fc}, []int{4}, Config{Threads: 1})
	x, labels := batchFor([]int{4}, 5, 8)
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	values := map[*Param][]float64{}
	for _, p := range net.Params() {
		for _, v := range p.Value.Data {
			values[p.Param] = append(values[p.Param], float64(v))
		}
	}
	const h = 1e-5
	for _, p := range net.Params() {
		var want []float32
		for i := range p.Value.Data {
			var ends [2]float64
			for k, d := range []float64{h, -h} {
				values[p.Param][i] += d
				ends[k] = reference(t, Sequential{fc, ReLU{}, fc}, values, []int{4}, x, labels, 0)
				values[p.Param][i] -= d
			}
			want = append(want, float32((ends[0]-ends[1])/(2*h)))
		}
		wantClose(t, p.Name, p.Grad, want, 1e-5)
	}
}

func TestGraphsAreBounded(t *testing.T) {
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 1, MaxGraphs: 2})
	for _, n := range []int{1, 2, 3, 1, 3} {
		x, labels := batchFor(shape, n, 1)
		if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
			t.Fatal(err)
		}
	}
	var kept []int
	for _, p := range net.programs {
		kept = append(kept, p.batch)
	}
	if !slices.Equal(kept, []int{1, 3}) {
		t.Errorf("graphs kept are for batches %v, want [1 3]", kept)
	}
}

// TestSteadyState: after the first steps, a step allocates no tensor and
// leaves no goroutine behind. The batch of 64 has tensors of 200 kB and more.
func TestSteadyState(t *testing.T) {
	rng := newRand(1)
	model := Sequential{
		NewConv2d(rng, 1, 8, 3, Conv2dConfig{Padding: 1}), ReLU{}, MaxPool2d{Kernel: 2},
		NewConv2d(rng, 8, 16, 3, Conv2dConfig{Padding: 1}), ReLU{},
		Flatten{}, NewLinear(rng, 16*14*14, 64), ReLU{}, NewLinear(rng, 64, 3),
	}
	shape := []int{1, 28, 28}
	net := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels := batchFor(shape, 64, 1)
	half := 32 * size(shape)
	step := func() {
		if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
			t.Fatal(err)
		}
		if _, _, err := net.Accumulate(t.Context(), 1, x[:half], labels[:32]); err != nil {
			t.Fatal(err)
		}
		if _, _, err := net.Evaluate(t.Context(), x, labels); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		step()
	}
	goroutines := runtime.NumGoroutine()
	// A step of this test is three runs.
	if got := steady.Bytes(5, step) / 3; got > 64<<10 {
		t.Errorf("%d bytes allocated a run, want at most 64 KiB", got)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines after the steps, %d before", now, goroutines)
	}
}
