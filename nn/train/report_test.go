package train_test

import (
	"math"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn/train"
)

// By hand: three classes, the last one without images, and never taken for.
func TestReport(t *testing.T) {
	r := train.Report{Images: 10, Confusion: [][]int{{3, 1, 0}, {2, 4, 0}, {0, 0, 0}}}
	if got := r.Accuracy(); got != 0.7 {
		t.Errorf("accuracy %v, want 0.7", got)
	}
	for c, want := range []train.ClassReport{
		{Images: 4, Right: 3, Precision: 0.6, Recall: 0.75, F1: 2.0 / 3},
		{Images: 6, Right: 4, Precision: 0.8, Recall: 2.0 / 3, F1: 8.0 / 11},
		{},
	} {
		if got := r.Class(c); got != want {
			t.Errorf("class %d: %+v, want %+v", c, got, want)
		}
	}
}

// What Classify says of the whole is what Evaluate says, whatever the batch.
func TestClassifyAgreesWithEvaluate(t *testing.T) {
	s := newSetup(t, func(c *train.Config) { c.Steps = 4 })
	result, err := s.trainer(t).Run(t.Context())
	check(t, err)
	for _, batch := range []int{7, 64, 1000} {
		r, err := train.Classify(t.Context(), s.network, s.config.Test, batch)
		check(t, err)
		if r.Images != s.config.Test.N || r.Accuracy() != result.TestAccuracy || math.Abs(r.Loss-result.TestLoss) > 1e-5 {
			t.Errorf("batch %d: %d images, accuracy %v, loss %v; evaluated were %d, %v, %v",
				batch, r.Images, r.Accuracy(), r.Loss, s.config.Test.N, result.TestAccuracy, result.TestLoss)
		}
	}
}

func TestClassifyRefuses(t *testing.T) {
	s := newSetup(t, nil)
	_, three, err := datasets.Load(t.Context(), "synthetic", datasets.Options{Synthetic: datasets.Synthetic{Seed: 3, Train: 30, Test: 30, Classes: 3, Shape: []int{1, 8, 8}}})
	check(t, err)
	if _, err := train.Classify(t.Context(), s.network, three, 8); err == nil || !strings.Contains(err.Error(), "10 outputs for 3 classes") {
		t.Errorf("other classes: error %v", err)
	}
	s.network.Params()[3].Value.Data[0] = float32(math.NaN())
	if _, err := train.Classify(t.Context(), s.network, s.config.Test, 8); err == nil ||
		!strings.Contains(err.Error(), "image 0: output ") || !strings.Contains(err.Error(), "parameter fc2.bias") {
		t.Errorf("a NaN in a bias: error %v, want one that names it", err)
	}
}
