package kernel

import (
	"errors"
	"fmt"
)

// BatchNorm is the geometry of a batch normalisation (Ioffe and Szegedy, 2015)
// over N images of C channels of Plane entries each; Plane is H*W for images
// and 1 for vectors. In each channel
//
//	y = max(0, Gamma * (x - mean) / sqrt(var + Eps) + Beta + residual)
//
// with the residual and the maximum only where they are asked for: the tail of
// a residual block in one pass.
type BatchNorm struct {
	N, C, Plane int
	Eps         float64
	Momentum    float64 // share of the batch in the running statistics, as in PyTorch
	ReLU        bool
}

// BatchNormParams holds what a layer has of each channel.
type BatchNormParams struct {
	Gamma, Beta             []float32 // nil counts as ones, as zeros
	RunningMean, RunningVar []float32 // updated by BatchNormTrain unless nil; used by BatchNormEval
	Mean, InvStd            []float32 // of the batch: written by BatchNormTrain, read by BatchNormBackward
}

// Len returns the number of entries of the input and of the output.
func (g BatchNorm) Len() int { return g.N * g.C * g.Plane }

// Validate lists everything that is wrong with the geometry.
func (g BatchNorm) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("batch normalisation: "+format, args...))
	}
	for _, d := range []struct {
		name  string
		value int
	}{{"batch size", g.N}, {"channels", g.C}, {"plane size", g.Plane}} {
		if d.value < 1 || d.value > maxEntries {
			bad("%s %d, want at least 1 and at most %d", d.name, d.value, maxEntries)
		}
	}
	if errs == nil && !bounded(g.N, g.C, g.Plane) {
		bad("input %dx%dx%d, want at most %d entries", g.N, g.C, g.Plane, maxEntries)
	}
	if !(g.Eps >= 0) {
		bad("epsilon %v, want at least 0", g.Eps)
	}
	if !(g.Momentum >= 0 && g.Momentum <= 1) {
		bad("momentum %v, want 0 to 1", g.Momentum)
	}
	return errors.Join(errs...)
}

// BatchNormTrain normalises by the mean and the variance of the batch, which it
// saves in c.Mean and c.InvStd, and moves the running statistics towards them
// (the variance of the population, M/(M-1) of the batch's for M = N*Plane > 1).
// A nil residual is left out. y may be the residual but not x.
//
// The statistics are computed block by block with two passes over each block
// while it is in the first-level cache, and merged in order in float64 (Chan,
// Golub and LeVeque, 1983): they are sound whatever the ratio of mean and
// deviation. The geometry must be valid here and below, and each slice at least
// as long as it tells; anything else panics.
func BatchNormTrain(p *Pool, g BatchNorm, c BatchNormParams, x, residual, y []float32) {
	t := batchNorms.get()
	defer t.release()
	t.forward(g, c, x, residual, y)
	t.Mean, t.InvStd = atLeast("the means", c.Mean, g.C), atLeast("the inverse deviations", c.InvStd, g.C)
	if c.RunningMean != nil || c.RunningVar != nil {
		t.running()
	}
	t.run(p, (*batchNorm).trainChannel)
}

// BatchNormEval normalises by the running statistics. y may be x or the residual.
func BatchNormEval(p *Pool, g BatchNorm, c BatchNormParams, x, residual, y []float32) {
	t := batchNorms.get()
	defer t.release()
	t.forward(g, c, x, residual, y)
	t.running()
	t.run(p, (*batchNorm).evalChannel)
}

// BatchNormBackward computes the gradients of BatchNormTrain: dx of x, dgamma
// and dbeta of the parameters (unless nil), from dy, that of y.
//
// Where a residual was added, dresidual is needed if g.ReLU is set, and
// receives the residual's gradient, and so is y, the output; without ReLU the
// residual's gradient is dy itself and dresidual must be nil. y is not used
// otherwise. One of dx and dresidual may be dy.
func BatchNormBackward(p *Pool, g BatchNorm, c BatchNormParams, x, y, dy, dx, dresidual, dgamma, dbeta []float32) {
	t := batchNorms.get()
	defer t.release()
	t.backward(g, c, x, y, dy, dx, dresidual, dgamma, dbeta)
	t.Mean, t.InvStd = atLeast("the means", c.Mean, g.C), atLeast("the inverse deviations", c.InvStd, g.C)
	t.run(p, (*batchNorm).backwardChannel)
}

// BatchNormEvalBackward is BatchNormBackward for BatchNormEval: the statistics
// are constants.
func BatchNormEvalBackward(p *Pool, g BatchNorm, c BatchNormParams, x, y, dy, dx, dresidual, dgamma, dbeta []float32) {
	t := batchNorms.get()
	defer t.release()
	t.backward(g, c, x, y, dy, dx, dresidual, dgamma, dbeta)
	t.running()
	t.frozen = true
	t.run(p, (*batchNorm).backwardChannel)
}
