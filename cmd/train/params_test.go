package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// runHere runs the command in this process and wants it to succeed.
func runHere(t *testing.T, args ...string) {
	t.Helper()
	var out, said bytes.Buffer
	if status := execute(t.Context(), args, terminal{&out, &said}); status != exitDone {
		t.Fatalf("%q: exit status %d: %s", args, status, said.String())
	}
}

// stateOf loads a checkpoint of a ResNet-20 for three classes of grey images.
func stateOf(t *testing.T, path string, except ...string) []nn.NamedValue {
	t.Helper()
	model, err := models.New("resnet20", 3, []int{1, 28, 28}, newRand(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nn.LoadState(path, model, nn.Except(except...)); err != nil {
		t.Fatal(err)
	}
	state, err := nn.State(model)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// Frozen layers are to the bit those of --init, their running statistics too;
// the head has been drawn from the seed and trained.
func TestTransfer(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := writeImages("pictures", 3, 4); err != nil {
		t.Fatal(err)
	}
	groups := "groups:\n- {params: fc.*, lr: 0.05}\n- {params: \"*\", freeze: true}\n"
	if err := os.WriteFile("head.yaml", []byte(groups), 0o644); err != nil {
		t.Fatal(err)
	}
	runHere(t, "run", "--dataset=synthetic", "--model=resnet20", "--placement=local", "--steps=3", "--batch=16", "--out=a")
	runHere(t, "run", "--dataset=folder:pictures", "--model=resnet20", "--placement=local", "--steps=3", "--batch=4",
		"--init=a/checkpoints/step-00000003/model.safetensors", "--init-except=fc.*", "--config=head.yaml", "--out=b")
	from := stateOf(t, filepath.FromSlash("a/checkpoints/step-00000003/model.safetensors"), "fc.")
	to := stateOf(t, filepath.FromSlash("b/checkpoints/step-00000003/model.safetensors"))
	for i, v := range to {
		head := strings.HasPrefix(v.Name, "fc.")
		var equal bool
		switch {
		case v.Counter != nil:
			equal = v.Counter.Value == from[i].Counter.Value
		case v.Buffer != nil:
			equal = slices.Equal(v.Buffer.Value.Data, from[i].Buffer.Value.Data)
		default:
			equal = slices.Equal(v.Param.Value.Data, from[i].Param.Value.Data)
		}
		if equal == head {
			t.Errorf("%s: unchanged is %v, want %v", v.Name, equal, !head)
		}
	}
}

// A batch norm is frozen with all of its parameters, and not with some.
func TestFreezeNorms(t *testing.T) {
	model := nn.Sequential{nn.NewBatchNorm(2, nn.BatchNormConfig{}), nn.NewBatchNorm(2, nn.BatchNormConfig{}), nn.NewBatchNorm(2, nn.BatchNormConfig{NoAffine: true})}
	r := run{runFlags: &runFlags{}, lists: lists{Groups: []groupRule{{Params: "[0]*", Freeze: true}, {Params: "1.weight", Freeze: true}}}, model: model}
	if err := r.setParams(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if got := model[i].(*nn.BatchNorm).Config.Frozen; got != want {
			t.Errorf("batch norm %d: frozen %v, want %v", i, got, want)
		}
	}
	if r.parameters != 8 || r.trained != 2 {
		t.Errorf("%d of %d parameters are trained, want 2 of 8", r.trained, r.parameters)
	}
}

// The optimiser's groups say what the rules say, in the same order.
func TestOptimGroups(t *testing.T) {
	rate, none, decay := 0.02, 0.0, 0.3
	r := run{runFlags: &runFlags{LR: 0.1}, lists: lists{Groups: []groupRule{
		{Params: "a", Freeze: true}, {Params: "b", LR: &rate}, {Params: "c", WeightDecay: &none}, {Params: "d", LR: &rate, WeightDecay: &decay},
	}}}
	want := []optim.Group{{Match: "a"}, {Match: "b", LRScale: 0.2}, {Match: "c", NoDecay: true}, {Match: "d", LRScale: 0.2, Decay: 0.3}}
	got := r.optimGroups()
	if len(got) != len(want) {
		t.Fatalf("%d groups, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Match != w.Match || math.Abs(g.LRScale-w.LRScale) > 1e-15 || g.Decay != w.Decay || g.NoDecay != w.NoDecay {
			t.Errorf("group %d is %+v, want %+v", i, g, w)
		}
	}
}
