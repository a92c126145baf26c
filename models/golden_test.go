package models_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/safetensors"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// run is a training run of PyTorch 1.13 on one batch: the parameters it began
// with, the losses of its steps, and the logits after them.
type run struct {
	Steps    int     `json:"steps"`
	LR       float64 `json:"lr"`
	Momentum float64 `json:"momentum"`
	Decay    float64 `json:"weight_decay"`

	init      map[string]nn.NamedTensor
	x, logits []float32
	labels    []int32
	losses    []float64
}

func readRun(t testing.TB, name string) run {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Read(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	r := run{init: make(map[string]nn.NamedTensor)}
	if err := json.Unmarshal([]byte(f.Metadata["case"]), &r); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Entries {
		switch {
		case e.Name == "y":
			var wide []int64
			if wide, err = f.Int64s(e); err == nil {
				for _, v := range wide {
					r.labels = append(r.labels, int32(v))
				}
			}
		case e.Name == "losses":
			r.losses, err = f.Float64s(e)
		case e.Name == "x":
			r.x, err = f.Float32s(e)
		case e.Name == "logits":
			r.logits, err = f.Float32s(e)
		default:
			v := nn.NamedTensor{Name: strings.TrimPrefix(e.Name, "init.")}
			v.Shape = e.Shape
			v.Data, err = f.Float32s(e)
			r.init[v.Name] = v
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestConvnetFollowsPyTorch trains the convnet from the same parameters on the
// same batch with the same optimiser as PyTorch did.
func TestConvnetFollowsPyTorch(t *testing.T) {
	r := readRun(t, "run_mnist_convnet")
	m, err := models.New("convnet", 10, []int{1, 28, 28}, rng(1))
	if err != nil {
		t.Fatal(err)
	}
	net := network(t, m, nn.Config{Threads: 2})
	if len(net.Params()) != len(r.init) {
		t.Fatalf("%d parameters, want %d", len(net.Params()), len(r.init))
	}
	for _, p := range net.Params() {
		want, ok := r.init[p.Name]
		if !ok {
			t.Fatalf("PyTorch's model has no parameter %s", p.Name)
		}
		if n := copy(p.Value.Data, want.Data); n != p.Size() || n != len(want.Data) {
			t.Fatalf("parameter %s: shape %v, want %v", p.Name, p.Value.Shape, want.Shape)
		}
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(r.LR), Momentum: r.Momentum, Decay: r.Decay})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range r.losses {
		loss, _, err := net.Train(t.Context(), i+1, r.x, r.labels)
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
	logits, err := net.Predict(t.Context(), r.x)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range r.logits {
		if d := math.Abs(float64(logits[i] - want)); !(d < 5e-3) {
			t.Errorf("logit %d after %d steps: %v, want %v", i, r.Steps, logits[i], want)
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
