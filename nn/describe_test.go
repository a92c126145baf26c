package nn

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"
)

// reuser uses its last layer twice.
type reuser struct {
	Body     Sequential
	Fc1, Fc2 *Linear
}

func (m *reuser) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return Chain(g, x, m.Body, m.Fc1, m.Fc2, m.Fc2)
}

// By hand: a convolution of 3x3x2 weights for each of 4x8x8 outputs, a linear
// layer that is used twice.
func TestDescribe(t *testing.T) {
	rng := newRand(1)
	model := &reuser{
		Body: Sequential{NewConv2d(rng, 2, 4, 3, Conv2dConfig{Padding: 1}, NoBias()), NewBatchNorm(4, BatchNormConfig{}), ReLU{}, MaxPool2d{Kernel: 2}, Flatten{}},
		Fc1:  NewLinear(rng, 64, 5), Fc2: NewLinear(rng, 5, 5),
	}
	got, err := Describe(model, []int{2, 8, 8})
	if err != nil {
		t.Fatal(err)
	}
	want := []LayerInfo{
		{"body.0", "conv2d", []int{2, 8, 8}, []int{4, 8, 8}, 72, 2 * 256 * 18},
		{"body.1", "batchnorm", []int{4, 8, 8}, []int{4, 8, 8}, 8, 0},
		{"maxpool1", "maxpool", []int{4, 8, 8}, []int{4, 4, 4}, 0, 0},
		{"flatten1", "reshape", []int{4, 4, 4}, []int{64}, 0, 0},
		{"fc1", "linear", []int{64}, []int{5}, 325, 640},
		{"fc2", "linear", []int{5}, []int{5}, 30, 50},
		{"fc2", "linear", []int{5}, []int{5}, 0, 50},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if _, err := Describe(model, []int{3, 8, 8}); err == nil || !strings.Contains(err.Error(), "body.0") {
		t.Errorf("other channels: error %v, want one that names body.0", err)
	}
	if _, err := Describe(model, []int{2, 0, 8}); err == nil {
		t.Error("a side of 0: no error")
	}
}
