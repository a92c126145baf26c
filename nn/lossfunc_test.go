package nn

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestLossFunc: a loss of one's own gives what the built-in one gives.
func TestLossFunc(t *testing.T) {
	const batch, outputs = 3, 2
	out, targets := []float32{1, -2, 0.5, 3, -1, 0}, []float32{0, 1, 0.5, 2, 2, 2}
	mse := LossFunc{Name: "mean square", Mean: func(b LossBatch) (float64, error) {
		var sum float64
		for i, v := range b.Out {
			d := v - b.Values[i]
			sum += float64(d) * float64(d)
			if b.Grad != nil {
				b.Grad[i] += 2 * d / float32(len(b.Out))
			}
		}
		if b.Outputs != outputs || len(b.Out) != batch*outputs || b.Labels != nil {
			t.Errorf("%d outputs, %d numbers, labels %v", b.Outputs, len(b.Out), b.Labels)
		}
		return sum / float64(len(b.Out)), nil
	}}
	own, eye := outputsOf(t, out, batch, outputs, mse)
	builtIn, _ := outputsOf(t, out, batch, outputs, MSE{})
	for step := 1; step <= 2; step++ { // Grad is zeros each time
		got, err := own.TrainTargets(t.Context(), step, eye, targets)
		if err != nil {
			t.Fatal(err)
		}
		want, err := builtIn.TrainTargets(t.Context(), step, eye, targets)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("loss %v, want %v", got, want)
		}
		wantClose(t, "gradient", lossGradient(own, batch, outputs), lossGradient(builtIn, batch, outputs), 1e-6)
	}
	if sum, err := own.EvaluateTargets(t.Context(), eye, targets); err != nil || sum <= 0 {
		t.Errorf("evaluation: %v, error %v", sum, err)
	}
}

// TestLossFuncLabelled: a labelled loss is given labels; its errors and panics
// name it.
func TestLossFuncLabelled(t *testing.T) {
	var fails error
	loss := LossFunc{Name: "hinge", Labelled: true, Mean: func(b LossBatch) (float64, error) {
		if len(b.Labels) != 2 || b.Values != nil {
			panic("no labels")
		}
		return 1, fails
	}}
	net, eye := outputsOf(t, []float32{1, 2, 3, 4}, 2, 2, loss)
	if got, _, err := net.Train(t.Context(), 1, eye, []int32{0, 1}); err != nil || got != 1 {
		t.Errorf("loss %v, error %v", got, err)
	}
	fails = errors.New("margin is negative")
	if _, _, err := net.Train(t.Context(), 2, eye, []int32{0, 1}); !errors.Is(err, fails) || !strings.Contains(err.Error(), "loss") {
		t.Errorf("error %v", err)
	}
	if _, err := NewNetwork(&Linear{Weight: NewParam(2, 2)}, []int{2}, Config{Loss: LossFunc{}}); err == nil || !strings.Contains(err.Error(), "Mean is nil") {
		t.Errorf("a loss function without a function: %v", err)
	}
}
