package nn

import (
	"math"
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
)

// refCrossEntropy is a CrossEntropy in float64, from its definition.
func refCrossEntropy(c CrossEntropy, x []float64, labels []int32) float64 {
	classes := len(x) / len(labels)
	loss, weights := 0.0, 0.0
	for i, label := range labels {
		row := x[i*classes : (i+1)*classes]
		most := math.Inf(-1)
		for _, v := range row {
			most = max(most, v)
		}
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(v - most)
		}
		for k, v := range row {
			w, target := 1.0, c.Smoothing/float64(classes)
			if c.Weights != nil {
				w = float64(c.Weights[k])
			}
			if k == int(label) {
				target += 1 - c.Smoothing
				weights += w
			}
			loss += w * target * (most + math.Log(sum) - v)
		}
	}
	return loss / weights
}

// refTargets is a loss that compares numbers: a mean of a function of each.
func refTargets(loss Loss, x []float64, targets []float32) float64 {
	sum := 0.0
	for i, v := range x {
		t := float64(targets[i])
		d := math.Abs(v - t)
		switch l := loss.(type) {
		case MSE:
			sum += d * d
		case SmoothL1:
			if beta := orDefault(l.Beta, 1); d < beta {
				sum += d * d / (2 * beta)
			} else {
				sum += d - beta/2
			}
		case BCEWithLogits: // -t log s(v) - (1-t) log(1-s(v)) for a sigmoid s
			sum += max(v, 0) - v*t + math.Log1p(math.Exp(-math.Abs(v)))
		}
	}
	return sum / float64(len(x))
}

// TestLossesAreDifferences compares each loss with its float64 reference, and
// its gradient with central differences of that, at outputs from small to 1e4.
// Class 1 has no sample, and class 3 counts for nothing.
func TestLossesAreDifferences(t *testing.T) {
	const n, outputs = 6, 5
	labels := []int32{0, 2, 4, 3, 4, 0}
	weights := []float32{1, 2, 0.5, 0, 3}
	for _, loss := range []Loss{
		CrossEntropy{}, CrossEntropy{Smoothing: 0.1}, CrossEntropy{Weights: weights}, CrossEntropy{Smoothing: 0.3, Weights: weights},
		MSE{}, SmoothL1{}, SmoothL1{Beta: 0.3}, BCEWithLogits{},
	} {
		for _, scale := range []float32{0, 0.01, 1, 100, 1e4} {
			rng := newRand(4)
			x, targets := normals(rng, n*outputs), make([]float32, n*outputs)
			kernel.Scale(x, scale, x)
			for i := range targets {
				targets[i] = rng.Float32() // as BCEWithLogits takes them
			}
			net, eye := outputsOf(t, x, n, outputs, loss)
			wide := make([]float64, len(x))
			for i, v := range x {
				wide[i] = float64(v)
			}
			var got float64
			var err error
			at := func() float64 { return refTargets(loss, wide, targets) }
			if ce, ok := loss.(CrossEntropy); ok {
				at = func() float64 { return refCrossEntropy(ce, wide, labels) }
				got, _, err = net.Train(t.Context(), 1, eye, labels)
			} else {
				got, err = net.TrainTargets(t.Context(), 1, eye, targets)
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := at(); !(math.Abs(got-want) <= 1e-6*want) {
				t.Errorf("%#v of outputs of %v: %v, want %v", loss, scale, got, want)
			}
			want := make([]float32, len(x))
			for i, v := range wide {
				const h = 1e-5
				wide[i] = v + h
				up := at()
				wide[i] = v - h
				want[i] = float32((up - at()) / (2 * h))
				wide[i] = v
			}
			wantClose(t, "gradient of "+net.config.Loss.name(), lossGradient(net, n, outputs), want, goldenTolerance)
		}
	}
}

// masked is a Dropout with the mask that it has in step 1, for the reference.
type masked struct {
	Dropout
	mask []float32
}

// newMasked returns dropout number layer of a model, for a batch of n numbers.
func newMasked(rate float64, seed, layer uint64, n int) *masked {
	m := &masked{Dropout{Rate: rate}, make([]float32, n)}
	fill(m.mask, 1)
	kernel.Dropout(nil, m.mask, m.mask, rate, kernel.DropoutKey{Seed: seed, Step: 1, Layer: layer})
	return m
}

// TestDropoutIsDifferences: with its mask fixed, dropout is differentiated like
// any other layer.
func TestDropoutIsDifferences(t *testing.T) {
	rng := newRand(13)
	model := Sequential{
		NewLinear(rng, 7, 8), Tanh{}, newMasked(0.4, 0, 1, 5*8), NewLinear(rng, 8, 8), newMasked(0.2, 0, 2, 5*8), SiLU{}, NewLinear(rng, 8, 3),
	}
	testDifferences(t, model, []int{7}, 0.1)
}
