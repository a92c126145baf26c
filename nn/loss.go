package nn

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Loss is what a Network minimises: a CrossEntropy, MSE, SmoothL1, BCEWithLogits or
// LossFunc, each the mean over a batch.
type Loss interface {
	// check looks at the settings, for a model with so many outputs a sample.
	check(outputs int) error
	// labelled tells that the target of a sample is a label, not numbers.
	labelled() bool
	name() string
	// mean returns the loss of a batch; grad receives its gradient unless nil.
	mean(p *kernel.Pool, out []float32, t target, batch, outputs int, grad []float32) (float64, error)
}

// target is what the outputs of a batch should be: one of the two is set.
type target struct {
	labels []int32
	values []float32
}

// CrossEntropy is the cross entropy between labels and the softmax of the logits z,
//
//	L = -sum_i sum_c w[c] t[i,c] log softmax(z_i)[c] / sum_i w[label_i]
//	t[i,c] = (1-Smoothing) [c = label_i] + Smoothing/classes
//
// (Szegedy et al. 2016, section 7, for the smoothing), as PyTorch defines it.
type CrossEntropy struct {
	Smoothing float64   // at least 0 and below 1
	Weights   []float32 // w: one for each class, at least 0; nil for ones
}

// MSE is the mean of the squared differences.
type MSE struct{}

// SmoothL1 is the mean of d*d/(2*Beta) where the difference d is below Beta,
// and of |d| - Beta/2 elsewhere (Girshick 2015, eq. 3).
type SmoothL1 struct {
	Beta float64 // 0 means 1
}

// BCEWithLogits is the mean of the binary cross entropy between the sigmoid of
// the outputs and targets from 0 to 1.
type BCEWithLogits struct{}

func (c CrossEntropy) check(classes int) error {
	var errs []error
	if !(c.Smoothing >= 0 && c.Smoothing < 1) {
		errs = append(errs, fmt.Errorf("label smoothing %v, want at least 0 and below 1", c.Smoothing))
	}
	if c.Weights != nil && len(c.Weights) != classes {
		errs = append(errs, fmt.Errorf("%d class weights for %d classes", len(c.Weights), classes))
	}
	for i, w := range c.Weights {
		if !(w >= 0) || math.IsInf(float64(w), 1) {
			errs = append(errs, fmt.Errorf("weight %v of class %d, want a finite number of at least 0", w, i))
		}
	}
	return errors.Join(errs...)
}

func (CrossEntropy) labelled() bool { return true }
func (CrossEntropy) name() string   { return "softmax cross entropy" }

func (c CrossEntropy) mean(p *kernel.Pool, out []float32, t target, batch, classes int, grad []float32) (float64, error) {
	return kernel.CrossEntropy(p, out, t.labels, batch, classes, c.Weights, c.Smoothing, grad)
}

func (MSE) check(int) error { return nil }
func (MSE) labelled() bool  { return false }
func (MSE) name() string    { return "mean squared error" }

func (MSE) mean(p *kernel.Pool, out []float32, t target, _, _ int, grad []float32) (float64, error) {
	return kernel.MSE(p, out, t.values, grad), nil
}

func (s SmoothL1) check(int) error {
	if !(s.Beta >= 0) || math.IsInf(s.Beta, 1) {
		return fmt.Errorf("smooth l1: beta %v, want a finite number of at least 0 (for the default)", s.Beta)
	}
	return nil
}

func (SmoothL1) labelled() bool { return false }
func (SmoothL1) name() string   { return "smooth l1" }

func (s SmoothL1) mean(p *kernel.Pool, out []float32, t target, _, _ int, grad []float32) (float64, error) {
	return kernel.SmoothL1(p, out, t.values, orDefault(s.Beta, 1), grad), nil
}

func (BCEWithLogits) check(int) error { return nil }
func (BCEWithLogits) labelled() bool  { return false }
func (BCEWithLogits) name() string    { return "binary cross entropy" }

func (BCEWithLogits) mean(p *kernel.Pool, out []float32, t target, _, outputs int, grad []float32) (float64, error) {
	for i, v := range t.values {
		if !(v >= 0 && v <= 1) {
			return 0, fmt.Errorf("target %v of output %d of sample %d, want 0 to 1", v, i%outputs, i/outputs)
		}
	}
	return kernel.BCEWithLogits(p, out, t.values, grad), nil
}

// lossNode is a loss in a training graph. It keeps what the graph's float32
// scalar cannot hold: the value in float64.
type lossNode struct {
	Loss
	target target
	value  float64
}

// add adds the loss of a model's outputs to the graph. The gradient is a
// by-product of the loss, so the forward operation computes it.
func (l *lossNode) add(g *Graph, out *gorgonia.Node) (*gorgonia.Node, error) {
	batch, outputs := out.Shape()[0], out.Shape()[1]
	grad := make([]float32, batch*outputs)
	return g.apply(opSpec{
		layer: "loss", kind: l.name(), in: []*gorgonia.Node{out}, diff: []bool{true},
		run: func(rc *runContext, v [][]float32, mean []float32) (err error) {
			l.value, err = l.mean(rc.pool, v[0], l.target, batch, outputs, grad)
			mean[0] = float32(l.value)
			return err
		},
		grad: func(g *Graph, loss, dloss *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.apply(opSpec{
				layer: "loss", kind: l.name() + " backward",
				// loss is listed so that this runs after it.
				in: []*gorgonia.Node{loss, dloss}, shape: []int{batch, outputs},
				run: func(_ *runContext, v [][]float32, dx []float32) error {
					kernel.Scale(dx, v[1][0], grad)
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
