package main

import (
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
)

// TestRun: an epoch of synthetic images is enough to tell their classes apart.
func TestRun(t *testing.T) {
	var out strings.Builder
	small := datasets.Options{Synthetic: datasets.Synthetic{Train: 1280, Test: 100, Shape: []int{1, 16, 16}}}
	if err := run(t.Context(), &out, "synthetic", small); err != nil {
		t.Fatal(err)
	}
	if want := "test accuracy 100.00 %\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestRunNamesTheDataset(t *testing.T) {
	if err := run(t.Context(), new(strings.Builder), "nist", datasets.Options{}); err == nil || !strings.Contains(err.Error(), `"nist"`) {
		t.Errorf("error %v, want one that names the data set", err)
	}
}
