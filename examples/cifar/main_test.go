package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
)

// images are synthetic, of three channels and smaller than CIFAR's.
func images(t *testing.T) (train, test *datasets.Set) {
	t.Helper()
	train, test, err := datasets.Load(t.Context(), "synthetic", datasets.Options{
		Synthetic: datasets.Synthetic{Train: 384, Test: 64, Classes: 2, Shape: []int{3, 8, 8}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return train, test
}

// TestRun: there is a line for each epoch, the last one cut short by the steps,
// and the loss falls.
func TestRun(t *testing.T) {
	train, test := images(t)
	var out strings.Builder
	if err := run(t.Context(), &out, train, test, 8, 23); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	losses := make([]float64, len(lines))
	for i, line := range lines {
		var epoch int
		var testLoss, accuracy float64
		if _, err := fmt.Sscanf(line, "epoch %d: loss %f, test loss %f, test accuracy %f %%",
			&epoch, &losses[i], &testLoss, &accuracy); err != nil || epoch != i+1 {
			t.Errorf("line %d is %q: %v", i+1, line, err)
		}
	}
	if len(lines) != 8 || losses[7] > losses[0]/2 {
		t.Errorf("losses %v", losses)
	}
}

// TestInterrupt: the end of the context, which is Ctrl-C, is no error.
func TestInterrupt(t *testing.T) {
	train, test := images(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, &out, train, test, 2, 0); err != nil {
		t.Fatal(err)
	}
	if want := "interrupted after step 0 of 6\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
