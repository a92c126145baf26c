package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// PairFollower is the coded.Follower of layers of which both factors of a product are
// sent: shipped ones, and gradients over coded batch blocks. There is nothing to
// follow, since whoever tests has both factors. A result of a task,
//
//	R = sum of A_a B_b  implies  R z = sum of A_a (B_b z)
//
// with signs z that are drawn for this answer alone (R. Freivalds 1977, see
// coded.Verifier), for products of matrices and, as both are bilinear, for
// convolutions: a convolution of planes is tested with one filter, the signed sum of
// those of the output channels. So a test costs what one column of the result does.
type PairFollower struct {
	name    string
	layers  [coded.Gradient]Config // by product: of one block of inputs and one of outputs; nil: there is none
	chunks  int
	results [][]coded.Output // by slot: pairs of coded blocks
	blocks  [][2]int         // by slot: of each factor
	single  bool             // factors and results are not lists of blocks

	mu  sync.Mutex
	rng *rand.Rand

	scratch sync.Pool // of *checkScratch
}

var _ coded.Follower = (*PairFollower)(nil)

// NewPairFollower draws the seed of the signs.
func NewPairFollower(l coded.Layer, rng *rand.Rand) (*PairFollower, error) {
	w := &PairFollower{name: "shard: layer " + l.Name, chunks: l.Chunks, single: l.Kind == KindGradient}
	w.scratch.New = func() any { return &checkScratch{} }
	w.rng = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	if w.single {
		_, err := NewGradient(l, 0, nil) // for its checks
		if err != nil {
			return nil, err
		}
	} else if _, err := NewShipped(l, 0, nil); err != nil {
		return nil, err
	}
	return w, w.describe(l)
}

// describe takes over what a layer that has been checked is.
func (w *PairFollower) describe(l coded.Layer) error {
	code, err := coded.New(l.Code)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	wrapped, err := parse[BatchConfig](l.Kind, l.Config)
	var c Config
	if err == nil {
		c, err = wrapped.Layer()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	for slot := range code.N() {
		task := code.Task(slot)
		w.results = append(w.results, task.Products())
		w.blocks = append(w.blocks, [2]int{len(task.A), len(task.B)})
		if w.single && (len(task.A) != 1 || len(task.B) != 1 || code.Results(slot) != 1) {
			return fmt.Errorf("%s: slot %d of code %v: want one coded block of each factor", w.name, slot, code)
		}
	}
	if w.single {
		w.layers[coded.Gradient-coded.Forward] = c
		return nil
	}
	cut := newFactorCut(c, code)
	for p := coded.Forward; p <= coded.Gradient; p++ {
		w.layers[p-coded.Forward] = cut.block(p)
	}
	return nil
}

// Check implements coded.Follower. Of operands that are not finite, as those of a
// training that diverges, nothing can be told.
func (w *PairFollower) Check(p coded.Product, slot, chunk int, operands []coded.Tensor, result coded.Tensor) (residual float64, err error) {
	if !p.Valid() || w.layers[p-coded.Forward] == nil || slot < 0 || slot >= len(w.results) || chunk < 0 || chunk >= w.chunks {
		return 0, fmt.Errorf("%s: slot %d, chunk %d of the %s product: there is no such thing", w.name, slot, chunk, p)
	}
	if len(operands) != 2 {
		return 0, fmt.Errorf("%s: %s product of %d operands, want 2", w.name, p, len(operands))
	}
	residual, err = w.check(p, slot, chunk, operands[0], operands[1], result)
	if err != nil && !finite(operands) {
		return 0, nil
	}
	if err != nil {
		return residual, fmt.Errorf("%s, slot %d, chunk %d of the %s product: %w", w.name, slot, chunk, p, err)
	}
	return residual, nil
}

func finite(operands []coded.Tensor) bool {
	var sum float64
	for _, x := range operands {
		sum += kernel.SumSquares(x.Data)
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// check tests every result of a task.
func (w *PairFollower) check(p coded.Product, slot, chunk int, a, b, result coded.Tensor) (residual float64, err error) {
	as, err := w.parts("A", a, w.blocks[slot][0])
	if err != nil {
		return 0, err
	}
	bs, err := w.parts("B", b, w.blocks[slot][1])
	if err != nil {
		return 0, err
	}
	rs, err := w.parts("result", result, len(w.results[slot]))
	if err != nil {
		return 0, err
	}
	s := w.scratch.Get().(*checkScratch)
	defer w.scratch.Put(s)
	t := pairTest{checkScratch: s, rng: w.draw(), product: p, chunks: w.chunks}
	for i, pairs := range w.results[slot] {
		t.a, t.b, t.result = t.a[:0], t.b[:0], rs[i]
		for _, pair := range pairs {
			t.a, t.b = append(t.a, as[pair.A]), append(t.b, bs[pair.B])
		}
		apart, err := t.run(w.layers[p-coded.Forward], chunk)
		residual = max(residual, apart)
		if err != nil {
			return residual, err
		}
	}
	return residual, nil
}

// parts are the blocks of a factor, or the results of a task.
func (w *PairFollower) parts(what string, x coded.Tensor, n int) ([]coded.Tensor, error) {
	if w.single {
		return []coded.Tensor{x}, nil
	}
	if len(x.Shape) < 3 || x.Shape[0] != n || len(x.Data) != elements(x.Shape) {
		return nil, &coded.ShapeError{What: "verify: " + what, Got: slices.Clone(x.Shape), Elements: len(x.Data), Want: []int{n, -1, -1}}
	}
	return Slots(nil, x), nil
}

// draw returns a source of signs for one answer.
func (w *PairFollower) draw() *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rand.New(rand.NewPCG(w.rng.Uint64(), w.rng.Uint64()))
}

// Reset implements coded.Follower: the shards hold nothing.
func (w *PairFollower) Reset(states []coded.ShardState) error {
	for _, s := range states {
		if err := w.CheckState(s.Slot, s.State); err != nil {
			return err
		}
	}
	return nil
}

// Accumulate implements coded.Follower: there is nothing that could be trained.
func (w *PairFollower) Accumulate(_, _ coded.Tensor) error {
	return fmt.Errorf("%s: accumulate: %w", w.name, errNoWeights)
}

// Apply implements coded.Follower: there is nothing to update.
func (w *PairFollower) Apply(coded.Update) error { return nil }

// CheckState implements coded.Follower.
func (w *PairFollower) CheckState(slot int, state []coded.Tensor) error {
	if len(state) > 0 {
		return fmt.Errorf("%s, slot %d: state of %d tensors: %w", w.name, slot, len(state), errNoWeights)
	}
	return nil
}
