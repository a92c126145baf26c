package models_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// TestConvnetFollowsPyTorch trains the convnet from the same parameters on the
// same batch with the same optimiser as PyTorch did.
func TestConvnetFollowsPyTorch(t *testing.T) {
	g := golden.Read(t, "run_mnist_convnet")[0]
	var run struct {
		Steps    int     `json:"steps"`
		LR       float64 `json:"lr"`
		Momentum float64 `json:"momentum"`
		Decay    float64 `json:"weight_decay"`
	}
	g.Settings(&run)
	m, err := models.New("convnet", 10, []int{1, 28, 28}, rng(1))
	if err != nil {
		t.Fatal(err)
	}
	net := network(t, m, nn.Config{Threads: 2})
	theirs := slices.DeleteFunc(g.Names(), func(name string) bool { return !strings.HasPrefix(name, "init.") })
	if len(net.Params()) != len(theirs) {
		t.Fatalf("%d parameters, PyTorch's model has %q", len(net.Params()), theirs)
	}
	for _, p := range net.Params() {
		name := "init." + p.Name
		if shape := g.Shape(name); !slices.Equal(p.Value.Shape, shape) {
			t.Fatalf("parameter %s: shape %v, want %v", p.Name, p.Value.Shape, shape)
		}
		copy(p.Value.Data, g.Floats(name))
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(run.LR), Momentum: run.Momentum, Decay: run.Decay})
	if err != nil {
		t.Fatal(err)
	}
	x, labels, losses := g.Floats("x"), g.Labels("y"), g.Float64s("losses")
	if len(losses) != run.Steps {
		t.Fatalf("%d losses of %d steps", len(losses), run.Steps)
	}
	for i, want := range losses {
		loss, _, err := net.Train(t.Context(), i+1, x, labels)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(loss-want) > 1e-3*want {
			t.Errorf("step %d: loss %.6f, want %.6f", i+1, loss, want)
		}
		if err := sgd.Step(i+1, optimParams(net)); err != nil {
			t.Fatal(err)
		}
	}
	logits, err := net.Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range g.Floats("logits") {
		if d := math.Abs(float64(logits[i] - want)); !(d < 5e-3) {
			t.Errorf("logit %d after %d steps: %v, want %v", i, run.Steps, logits[i], want)
		}
	}
}

func optimParams(net *nn.Network) []optim.Param {
	var list []optim.Param
	for _, p := range net.Params() {
		list = append(list, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
	}
	return list
}
