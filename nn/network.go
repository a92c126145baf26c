package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/coda-ml/coda/internal/kernel"
)

// Config holds the settings of a Network.
type Config struct {
	// Threads is the number of goroutines that compute; 0 means GOMAXPROCS.
	Threads int
	// Pool, where given, is used in place of one of the network's own, and
	// stays the caller's to close. Threads is then not used.
	Pool *kernel.Pool
	// LabelSmoothing is the part of the target that is spread over all
	// classes, at least 0 and below 1.
	LabelSmoothing float64
	// MaxGraphs bounds how many graphs (one for each batch size and mode) are
	// kept; 0 means 8. Beyond it the one not used for longest is dropped.
	MaxGraphs int
}

func (c Config) validate() error {
	var errs []error
	if c.Threads < 0 {
		errs = append(errs, fmt.Errorf("threads %d, want at least 0", c.Threads))
	}
	if !(c.LabelSmoothing >= 0 && c.LabelSmoothing < 1) {
		errs = append(errs, fmt.Errorf("label smoothing %v, want at least 0 and below 1", c.LabelSmoothing))
	}
	if c.MaxGraphs < 0 {
		errs = append(errs, fmt.Errorf("at most %d graphs, want at least 0 (for the default)", c.MaxGraphs))
	}
	return errors.Join(errs...)
}

// maxSalts is how often a graph is built anew because two of its nodes have
// the same hash. Eight failures in a row do not happen by chance.
const maxSalts = 8

// Network trains and evaluates a classifier: a model whose output are logits
// [batch, classes]. It builds a graph for each batch size and mode when it is
// first needed. All graphs share the parameters' memory, so what an optimiser
// or LoadState writes to it is seen by the next step.
//
// One goroutine at a time may use a Network.
type Network struct {
	model     Module
	shape     []int // of one sample
	classes   int
	config    Config
	pool      *kernel.Pool
	ownPool   bool
	params    []NamedParam
	names     map[any]string
	programs  []*program // the one used last at the end
	workspace kernel.Workspace
	gradients map[*Param]*gradient
	closed    bool
}

// gradient is the memory of a parameter's gradient.
type gradient struct {
	last []float32 // of the last run: all training graphs write here
	sum  []float32 // over several runs; nil until Accumulate needs it
}

// NewNetwork checks a model for inputs of a shape (one sample's: [1, 28, 28])
// and makes it ready to run. It must be closed.
func NewNetwork(model Module, inputShape []int, c Config) (*Network, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("nn: network: %w", err)
	}
	if len(inputShape) == 0 || slices.Min(inputShape) < 1 {
		return nil, fmt.Errorf("nn: network: input shape %v, want positive dimensions", inputShape)
	}
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	n := &Network{
		model: model, shape: slices.Clone(inputShape), config: c, pool: c.Pool,
		params: w.params, names: w.names, gradients: make(map[*Param]*gradient),
	}
	// A graph that never runs shows now what is wrong with the shapes.
	trial, err := n.build(1, false)
	if err != nil {
		return nil, err
	}
	n.classes = trial.logits.shape[1]
	if n.pool == nil {
		threads := c.Threads
		if threads == 0 {
			threads = runtime.GOMAXPROCS(0)
		}
		n.pool, n.ownPool = kernel.NewPool(threads), true
	}
	return n, nil
}

// Params returns the parameters of the model, in the order of Params.
func (n *Network) Params() []NamedParam { return slices.Clone(n.params) }

// Classes returns the number of classes: the columns of the logits.
func (n *Network) Classes() int { return n.classes }

// Train runs the model forward and backward on a batch of len(labels) samples
// in x, one after another, and leaves the gradients of the mean loss in the
// parameters' Grad. It returns the mean loss and how many samples were
// classified correctly. The step is for errors and for placed layers.
//
// A loss that is not finite is a *NonFiniteError. After an error Grad is nil
// and the next step may be tried.
func (n *Network) Train(ctx context.Context, step int, x []float32, labels []int32) (loss float64, correct int, err error) {
	p, err := n.program(x, len(labels), true)
	if err != nil {
		return 0, 0, err
	}
	n.dropGrads()
	if loss, correct, err = n.train(ctx, p, step, x, labels); err != nil {
		return 0, 0, err
	}
	for _, pg := range p.grads {
		pg.param.Grad = pg.store
	}
	return loss, correct, nil
}

// Accumulate is Train for the second and later parts of a batch: it adds its
// gradients to those of the last Train and Accumulate. The sum is not
// divided: with m parts of equal size the gradient of the whole is Grad/m.
// After an error Grad is what it was.
func (n *Network) Accumulate(ctx context.Context, step int, x []float32, labels []int32) (loss float64, correct int, err error) {
	p, err := n.program(x, len(labels), true)
	if err != nil {
		return 0, 0, err
	}
	for _, np := range n.params {
		if np.Grad != nil {
			n.moveToSum(np.Param)
		}
	}
	if loss, correct, err = n.train(ctx, p, step, x, labels); err != nil {
		return 0, 0, err
	}
	for _, pg := range p.grads {
		if pg.param.Grad == nil {
			pg.param.Grad = pg.store
		} else {
			addTo(n.pool, pg.param.Grad, pg.store)
		}
	}
	return loss, correct, nil
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

func (n *Network) train(ctx context.Context, p *program, step int, x []float32, labels []int32) (float64, int, error) {
	p.loss.labels = labels
	p.g.begin()
	err := p.execute(ctx, step, x)
	p.loss.labels = nil
	if err != nil {
		return 0, 0, err
	}
	loss := p.loss.loss
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, &NonFiniteError{Step: step, Loss: loss, Where: p.nonFinite()}
	}
	if err := p.collect(step); err != nil {
		return 0, 0, err
	}
	p.g.commit()
	return loss, kernel.Correct(p.logits.buf, labels, p.batch, n.classes), nil
}

func (n *Network) dropGrads() {
	for _, np := range n.params {
		np.Grad = nil
	}
}

// Evaluate runs the model forward on len(labels) samples and returns the sum
// of their losses (with label smoothing, as in training) and how many were
// classified correctly.
func (n *Network) Evaluate(ctx context.Context, x []float32, labels []int32) (lossSum float64, correct int, err error) {
	logits, err := n.infer(ctx, x, len(labels))
	if err != nil {
		return 0, 0, err
	}
	loss, err := kernel.SoftmaxCrossEntropy(logits, labels, len(labels), n.classes, n.config.LabelSmoothing, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("nn: evaluate: %w", err)
	}
	return loss * float64(len(labels)), kernel.Correct(logits, labels, len(labels), n.classes), nil
}

// Predict returns the logits of the samples in x, classes of them a sample.
func (n *Network) Predict(ctx context.Context, x []float32) ([]float32, error) {
	sample := size(n.shape)
	if len(x) == 0 || len(x)%sample != 0 {
		return nil, fmt.Errorf("nn: predict: %d numbers, want a multiple of %d for samples of shape %v", len(x), sample, n.shape)
	}
	logits, err := n.infer(ctx, x, len(x)/sample)
	return slices.Clone(logits), err
}

// infer returns the logits, borrowed until the next run.
func (n *Network) infer(ctx context.Context, x []float32, batch int) ([]float32, error) {
	p, err := n.program(x, batch, false)
	if err != nil {
		return nil, err
	}
	if err := p.execute(ctx, 0, x); err != nil {
		return nil, err
	}
	return p.logits.buf, nil
}

// program returns the graph for a batch, built if need be.
func (n *Network) program(x []float32, batch int, training bool) (*program, error) {
	if n.closed {
		return nil, errors.New("nn: network is closed")
	}
	if batch == 0 || len(x) != batch*size(n.shape) {
		return nil, fmt.Errorf("nn: batch of %d samples: %d numbers, want %d for samples of shape %v", batch, len(x), batch*size(n.shape), n.shape)
	}
	for i, p := range n.programs {
		if p.batch == batch && p.training == training {
			n.programs = append(slices.Delete(n.programs, i, i+1), p)
			return p, nil
		}
	}
	p, err := n.build(batch, training)
	if err != nil {
		return nil, err
	}
	if err := p.compile(); err != nil {
		return nil, err
	}
	limit := n.config.MaxGraphs
	if limit == 0 {
		limit = 8
	}
	if len(n.programs) >= limit {
		oldest := n.programs[0]
		n.programs = slices.Delete(n.programs, 0, 1)
		if err := oldest.close(); err != nil {
			return nil, err
		}
	}
	n.programs = append(n.programs, p)
	return p, nil
}

// build makes a graph, with another salt where two nodes have the same hash.
func (n *Network) build(batch int, training bool) (*program, error) {
	var err error
	for salt := range uint32(maxSalts) {
		p := &program{batch: batch, training: training}
		g := newGraph(n.pool, n.names, batch, training, salt)
		g.run.ws = &n.workspace
		if err = p.build(g, n.model, n.shape, n.config.LabelSmoothing, n.store); err == nil {
			return p, nil
		}
		if !isCollision(err) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("nn: build graph of %T for batch %d: %w", n.model, batch, err)
}

// store returns the memory of a parameter's gradient, shared by all graphs.
func (n *Network) store(p *Param) []float32 {
	gr := n.gradients[p]
	if gr == nil {
		gr = &gradient{last: make([]float32, p.Size())}
		n.gradients[p] = gr
	}
	return gr.last
}

// Close releases the graphs and the network's own goroutines.
func (n *Network) Close() error {
	if n.closed {
		return nil
	}
	n.closed = true
	var errs []error
	for _, p := range n.programs {
		errs = append(errs, p.close())
	}
	n.programs = nil
	if n.ownPool {
		n.pool.Close()
	}
	return errors.Join(errs...)
}
