package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
)

// TestGradients: Backward is the derivative of Forward. nn.CheckGradients moves
// the entries of the input and of every parameter, one at a time.
func TestGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, m := range []nn.Module{Mish{}, NewSqueezeExcite(rng, 8, 2)} {
		if err := nn.CheckGradients(m, []int{2, 8, 3, 3}, nn.GradientCheck{}); err != nil {
			t.Error(err)
		}
	}
}

// TestMishValues are those of the definition in float64, and of its two ends.
func TestMishValues(t *testing.T) {
	for _, c := range []struct{ x, y, slope float64 }{
		{0, 0, 0.6}, {1, 0.8650984, 1.0490363}, {-1, -0.3034015, 0.0592176}, {25, 25, 1}, {-200, 0, 0},
	} {
		y, slope := mish(float32(c.x))
		if d := max(abs(float64(y)-c.y), abs(float64(slope)-c.slope)); !(d < 1e-6) {
			t.Errorf("mish(%v) = %v with slope %v, want %v and %v", c.x, y, slope, c.y, c.slope)
		}
	}
}

func abs(x float64) float64 { return max(x, -x) }

func TestShapesAreChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	model := nn.Sequential{nn.Flatten{}, NewSqueezeExcite(rng, 8, 2)}
	if _, err := nn.NewNetwork(model, []int{8, 2, 2}, nn.Config{}); err == nil || !strings.Contains(err.Error(), "[1 32]") {
		t.Errorf("error %v, want one that names the shape", err)
	}
}

// TestRun: an epoch of synthetic images is enough to tell their classes apart.
func TestRun(t *testing.T) {
	var out strings.Builder
	small := datasets.Options{Synthetic: datasets.Synthetic{Train: 1280, Test: 100}}
	if err := run(t.Context(), &out, "synthetic", small); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nse.reduce.weight [4 16]\n", "\ntest accuracy 100.00 %\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, which lacks %q", out.String(), want)
		}
	}
}
