package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
)

// images are synthetic; LeNet takes them from 12x12 on.
func images(t *testing.T) (train, test *datasets.Set) {
	t.Helper()
	train, test, err := datasets.Load(t.Context(), "synthetic", datasets.Options{
		Synthetic: datasets.Synthetic{Train: 900, Test: 100, Classes: 5, Shape: []int{1, 12, 12}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return train, test
}

// TestRunLearns: of 900 images 14 batches of 64 are used, and 7 steps made of
// them, so the run has eight epochs and a half.
func TestRunLearns(t *testing.T) {
	train, test := images(t)
	var out strings.Builder
	if err := run(t.Context(), &out, train, test, 100, ""); err != nil {
		t.Fatal(err)
	}
	var loss, norm, rate, top1, top2 float64
	if _, err := fmt.Sscanf(out.String(), "step 100: loss %f, gradient norm %f, rate %f\ntop-1 %f %%, top-2 %f %%",
		&loss, &norm, &rate, &top1, &top2); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if top1 < 90 || top2 < top1 || loss > 1 { // by chance 20 %, 40 % and 1.6
		t.Errorf("loss %v, top-1 %v %%, top-2 %v %%", loss, top1, top2)
	}
}

// TestGoesOnToTheBit: a run in two parts, the first of which ends in the middle
// of an epoch, writes the files of a run in one.
func TestGoesOnToTheBit(t *testing.T) {
	train, test := images(t)
	whole, parts := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		dir   string
		steps int
	}{{whole, 12}, {parts, 5}, {parts, 12}} {
		if err := run(t.Context(), new(strings.Builder), train, test, c.steps, c.dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{modelFile, trainingFile} {
		if read(t, whole, name) != read(t, parts, name) {
			t.Errorf("%s differs", name)
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFilesOfTwoSteps: a model and a training state that do not belong together
// are refused.
func TestFilesOfTwoSteps(t *testing.T) {
	train, test := images(t)
	first, second := t.TempDir(), t.TempDir()
	for steps, dir := range []string{first, second} {
		if err := run(t.Context(), new(strings.Builder), train, test, steps+1, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(first, trainingFile), filepath.Join(second, trainingFile)); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), new(strings.Builder), train, test, 3, second)
	if want := `model.safetensors is of step "2", training.safetensors of step "1"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
