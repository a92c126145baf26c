package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

// synthetic is a task of small images; each seed has patterns of its own.
func synthetic(t *testing.T, seed uint64, classes, steps int) task {
	t.Helper()
	train, test, err := datasets.Load(t.Context(), "synthetic", datasets.Options{
		Synthetic: datasets.Synthetic{Seed: seed, Train: 512, Test: 128, Classes: classes, Shape: []int{1, 8, 8}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return task{train, test, steps}
}

// TestTransfer: the head learns other classes than the body did, and the file
// is that of the body.
func TestTransfer(t *testing.T) {
	weights := filepath.Join(t.TempDir(), "body.safetensors")
	var out strings.Builder
	if err := pretrain(t.Context(), &out, weights, "resnet20", synthetic(t, 1, 6, 16)); err != nil {
		t.Fatal(err)
	}
	if err := transfer(t.Context(), &out, weights, "resnet20", synthetic(t, 2, 3, 16)); err != nil {
		t.Fatal(err)
	}
	var trained, all [2]int
	var accuracy [2]float64
	if _, err := fmt.Sscanf(out.String(), "training %d of %d parameters\nstep 16: test accuracy %f %%\n"+
		"training %d of %d parameters\nstep 16: test accuracy %f %%\n",
		&trained[0], &all[0], &accuracy[0], &trained[1], &all[1], &accuracy[1]); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if trained[0] != all[0] || trained[1] != 64*3+3 || all[0]-all[1] != 64*3+3 {
		t.Errorf("trained %v of %v parameters", trained, all)
	}
	if accuracy[0] < 50 || accuracy[1] < 67 { // by chance 17 and 33
		t.Errorf("accuracies %v %%", accuracy)
	}
}

// TestFreeze: training moves the head and nothing else, statistics included.
func TestFreeze(t *testing.T) {
	work := synthetic(t, 1, 3, 3)
	model, err := models.New("resnet20", 3, work.train.Shape, newRand())
	if err != nil {
		t.Fatal(err)
	}
	if err := freeze(model, "fc."); err != nil {
		t.Fatal(err)
	}
	before := values(t, model)
	if err := work.fit(t.Context(), new(strings.Builder), model); err != nil {
		t.Fatal(err)
	}
	var moved []string
	for name, v := range values(t, model) {
		if !slices.Equal(v, before[name]) {
			moved = append(moved, name)
		}
	}
	slices.Sort(moved)
	if want := []string{"fc.bias", "fc.weight"}; !slices.Equal(moved, want) {
		t.Errorf("training has moved %q, want %q", moved, want)
	}
}

func values(t *testing.T, model nn.Module) map[string][]float32 {
	t.Helper()
	state, err := nn.State(model)
	if err != nil {
		t.Fatal(err)
	}
	copies := make(map[string][]float32)
	for _, v := range state {
		switch {
		case v.Param != nil:
			copies[v.Name] = slices.Clone(v.Param.Value.Data)
		case v.Buffer != nil:
			copies[v.Name] = slices.Clone(v.Buffer.Value.Data)
		default:
			copies[v.Name] = []float32{float32(v.Counter.Value)}
		}
	}
	return copies
}

// TestFileOfAnotherModel: every difference is named.
func TestFileOfAnotherModel(t *testing.T) {
	weights := filepath.Join(t.TempDir(), "lenet.safetensors")
	lenet, err := models.New("lenet", 3, []int{1, 12, 12}, newRand())
	if err != nil {
		t.Fatal(err)
	}
	if err := nn.SaveState(weights, lenet, nil); err != nil {
		t.Fatal(err)
	}
	err = transfer(t.Context(), new(strings.Builder), weights, "resnet20", synthetic(t, 1, 3, 1))
	var state *nn.StateError
	if !errors.As(err, &state) || !names(state.Missing, "bn1.running_mean") || !names(state.Unexpected, "conv2.bias") {
		t.Errorf("error %v", err)
	}
}

// names tells whether a tensor is among those that are described.
func names(list []string, tensor string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, tensor+":") })
}

func TestClasses(t *testing.T) {
	all := synthetic(t, 1, 5, 1).train
	some, err := classes(all, 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	if some.Classes != 2 || some.N != 204 || some.ClassNames[0] != all.ClassNames[3] {
		t.Errorf("%d images of %d classes %q", some.N, some.Classes, some.ClassNames)
	}
	// The classes follow each other in turn: 3 and 4 are images 3, 4, 8, 9, ...
	if !slices.Equal(some.Image(2), all.Image(8)) || some.Label(2) != 0 || some.Label(3) != 1 {
		t.Error("the third image is not the ninth")
	}
}
