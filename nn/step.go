package nn

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/internal/kernel"
)

// Train runs the model forward and backward on a batch of len(labels) samples
// in x, one after another, and leaves the gradients of the mean loss in the
// parameters' Grad. It returns the mean loss and how many samples were
// classified correctly. The step is for errors, dropout and placed layers.
//
// A loss that is not finite is a *NonFiniteError. After an error Grad is nil,
// buffers are what they were, and the next step may be tried.
func (n *Network) Train(ctx context.Context, step int, x []float32, labels []int32) (loss float64, correct int, err error) {
	p, loss, err := n.train(ctx, step, x, len(labels), target{labels: labels})
	if err != nil {
		return 0, 0, err
	}
	return loss, n.correct(p, labels), nil
}

// TrainTargets is Train for the losses that compare numbers: targets holds
// those that the model should give, sample after sample.
func (n *Network) TrainTargets(ctx context.Context, step int, x, targets []float32) (loss float64, err error) {
	_, loss, err = n.train(ctx, step, x, n.samples(x), target{values: targets})
	return loss, err
}

// Accumulate is Train for the second and later parts of a batch: it adds its
// gradients to those of the last Train and Accumulate. The sum is not
// divided: with m parts of equal size the gradient of the whole is Grad/m.
// After an error Grad is what it was.
func (n *Network) Accumulate(ctx context.Context, step int, x []float32, labels []int32) (loss float64, correct int, err error) {
	p, loss, err := n.accumulate(ctx, step, x, len(labels), target{labels: labels})
	if err != nil {
		return 0, 0, err
	}
	return loss, n.correct(p, labels), nil
}

// AccumulateTargets is to TrainTargets what Accumulate is to Train.
func (n *Network) AccumulateTargets(ctx context.Context, step int, x, targets []float32) (loss float64, err error) {
	_, loss, err = n.accumulate(ctx, step, x, n.samples(x), target{values: targets})
	return loss, err
}

func (n *Network) samples(x []float32) int { return len(x) / size(n.shape) }

func (n *Network) correct(p *program, labels []int32) int {
	return kernel.Correct(p.logits.buf, labels, p.batch, n.outputs)
}

func (n *Network) train(ctx context.Context, step int, x []float32, batch int, t target) (*program, float64, error) {
	p, err := n.program(x, batch, true)
	if err != nil {
		return nil, 0, err
	}
	n.dropGrads()
	n.norms.reset()
	n.part = 0
	loss, err := n.gradient(ctx, p, step, x, t)
	if err != nil {
		return nil, 0, err
	}
	for _, pg := range p.grads {
		pg.param.Grad = pg.store
	}
	return p, loss, nil
}

func (n *Network) accumulate(ctx context.Context, step int, x []float32, batch int, t target) (*program, float64, error) {
	p, err := n.program(x, batch, true)
	if err != nil {
		return nil, 0, err
	}
	for _, np := range n.params {
		if np.Grad != nil {
			n.moveToSum(np.Param)
		}
	}
	n.part++
	loss, err := n.gradient(ctx, p, step, x, t)
	if err != nil {
		return nil, 0, err
	}
	for _, pg := range p.grads {
		if pg.param.Grad == nil {
			pg.param.Grad = pg.store
		} else {
			addTo(n.pool, pg.param.Grad, pg.store)
		}
	}
	return p, loss, nil
}

// moveToSum takes the gradient out of the way of the next run.
func (n *Network) moveToSum(p *Param) {
	gr := n.gradients[p]
	if gr == nil || gr.sum != nil && &p.Grad[0] == &gr.sum[0] {
		return
	}
	if gr.sum == nil {
		gr.sum = make([]float32, p.Size())
	}
	copy(gr.sum, p.Grad)
	p.Grad = gr.sum
}

// gradient runs a program and leaves the gradients where they are stored.
func (n *Network) gradient(ctx context.Context, p *program, step int, x []float32, t target) (float64, error) {
	if err := n.checkTarget(p.batch, t); err != nil {
		return 0, err
	}
	p.loss.target = t
	p.g.run.part = n.part
	p.g.begin()
	err := p.execute(ctx, step, x)
	p.loss.target = target{}
	if err != nil {
		return 0, err
	}
	loss := p.loss.value
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, &NonFiniteError{Step: step, Loss: loss, Where: p.nonFinite()}
	}
	if err := p.collect(ctx, step); err != nil {
		return 0, err
	}
	p.g.commit()
	n.norms.count()
	return loss, nil
}

// checkTarget checks that a target is of the kind and the size that the loss takes.
func (n *Network) checkTarget(batch int, t target) error {
	loss := n.config.Loss
	switch {
	case loss.labelled() && t.values != nil:
		return fmt.Errorf("nn: %s takes labels: use Train, Accumulate and Evaluate", loss.name())
	case !loss.labelled() && t.labels != nil:
		return fmt.Errorf("nn: %s takes numbers: use TrainTargets, AccumulateTargets and EvaluateTargets", loss.name())
	case !loss.labelled() && len(t.values) != batch*n.outputs:
		return fmt.Errorf("nn: %s: %d targets, want %d for %d samples of %d outputs", loss.name(), len(t.values), batch*n.outputs, batch, n.outputs)
	}
	return nil
}

func (n *Network) dropGrads() {
	for _, np := range n.params {
		np.Grad = nil
	}
}

// Evaluate runs the model forward on len(labels) samples and returns the sum
// of their losses (the mean that training gives times their number) and how
// many were classified correctly.
func (n *Network) Evaluate(ctx context.Context, x []float32, labels []int32) (lossSum float64, correct int, err error) {
	p, lossSum, err := n.evaluate(ctx, x, len(labels), target{labels: labels})
	if err != nil {
		return 0, 0, err
	}
	return lossSum, n.correct(p, labels), nil
}

// EvaluateTargets is Evaluate for the losses that compare numbers.
func (n *Network) EvaluateTargets(ctx context.Context, x, targets []float32) (lossSum float64, err error) {
	_, lossSum, err = n.evaluate(ctx, x, n.samples(x), target{values: targets})
	return lossSum, err
}

func (n *Network) evaluate(ctx context.Context, x []float32, batch int, t target) (*program, float64, error) {
	p, err := n.infer(ctx, x, batch)
	if err != nil {
		return nil, 0, err
	}
	if err := n.checkTarget(batch, t); err != nil {
		return nil, 0, err
	}
	loss, err := n.config.Loss.mean(n.pool, p.logits.buf, t, batch, n.outputs, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("nn: evaluate: %w", err)
	}
	return p, loss * float64(batch), nil
}

// Predict returns the outputs (the logits, of a classifier) of the samples in
// x, Outputs of them a sample.
func (n *Network) Predict(ctx context.Context, x []float32) ([]float32, error) {
	sample := size(n.shape)
	if len(x) == 0 || len(x)%sample != 0 {
		return nil, fmt.Errorf("nn: predict: %d numbers, want a multiple of %d for samples of shape %v", len(x), sample, n.shape)
	}
	p, err := n.infer(ctx, x, len(x)/sample)
	if err != nil {
		return nil, err
	}
	return slices.Clone(p.logits.buf), nil
}

// infer runs the graph for evaluation.
func (n *Network) infer(ctx context.Context, x []float32, batch int) (*program, error) {
	p, err := n.program(x, batch, false)
	if err != nil {
		return nil, err
	}
	if err := p.execute(ctx, 0, x); err != nil {
		return nil, err
	}
	return p, nil
}
