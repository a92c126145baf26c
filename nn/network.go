package nn

import (
	"errors"
	"fmt"
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
	// Loss is what is minimised; nil means CrossEntropy{}.
	Loss Loss
	// Seed decides what Dropout drops.
	Seed uint64
	// Placed makes graphs for evaluation compute placed layers on their placement,
	// as those for training do, and not with the local values of their weights.
	Placed bool
	// RemoteNorms makes training steps keep what SumSquares needs.
	RemoteNorms bool
	// MaxGraphs bounds how many graphs (one for each batch size and mode) are
	// kept; 0 means 8. Beyond it the one not used for longest is dropped.
	MaxGraphs int
}

func (c Config) validate() error {
	var errs []error
	if c.Threads < 0 {
		errs = append(errs, fmt.Errorf("threads %d, want at least 0", c.Threads))
	}
	if c.MaxGraphs < 0 {
		errs = append(errs, fmt.Errorf("at most %d graphs, want at least 0 (for the default)", c.MaxGraphs))
	}
	return errors.Join(errs...)
}

// maxSalts is how often a graph is built anew because two of its nodes have
// the same hash. Eight failures in a row do not happen by chance.
const maxSalts = 8

// Network trains and evaluates a model whose output is [batch, outputs]: logits
// of classes for a CrossEntropy, numbers to be compared with others for the
// other losses. It builds a graph for each batch size and mode when it is
// first needed. All graphs share the parameters' memory, so what an optimiser
// or LoadState writes to it is seen by the next step.
//
// One goroutine at a time may use a Network.
type Network struct {
	model     Module
	shape     []int // of one sample
	outputs   int   // a sample
	config    Config
	pool      *kernel.Pool
	ownPool   bool
	params    []NamedParam
	names     map[any]string
	programs  []*program // the one used last at the end
	workspace kernel.Workspace
	gradients map[*Param]*gradient
	norms     gradNorms // nil unless Config.RemoteNorms
	part      int       // of the step: how often Accumulate was called since Train
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
	if c.Loss == nil {
		c.Loss = CrossEntropy{}
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
	if c.RemoteNorms {
		n.norms = make(gradNorms)
	}
	// A graph that never runs shows now what is wrong with the shapes.
	trial, err := n.build(1, false)
	if err != nil {
		return nil, err
	}
	n.outputs = trial.logits.shape[1]
	if err := c.Loss.check(n.outputs); err != nil {
		return nil, fmt.Errorf("nn: network: %w", err)
	}
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

// Outputs returns how many numbers the model gives for a sample: with a
// CrossEntropy, the number of classes.
func (n *Network) Outputs() int { return n.outputs }

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
		g.run.ws, g.run.seed = &n.workspace, n.config.Seed
		g.placed, g.norms = training || n.config.Placed, n.norms
		if err = p.build(g, n.model, n.shape, n.config.Loss, n.store); err == nil {
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
