package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Linear is the resident shard of a fully connected layer at one slot of the
// code. It implements coded.Shard.
type Linear struct {
	name   string // for errors: "layer fc1, slot 3"
	config LinearConfig
	row    []float64 // coefficients of the slot over the k blocks
	chunks int
	pool   *kernel.Pool
	f, r   half // r is empty without Backward
	// pending tells that f.g and r.g hold a gradient.
	pending bool
	step    int // of the last update
}

var _ coded.Shard = (*Linear)(nil)

// NewLinear builds the shard with weights and momenta of zeros. The pool may
// be nil: then it computes on the goroutine of its caller.
func NewLinear(l coded.Layer, slot int, pool *kernel.Pool) (*Linear, error) {
	fail := func(err error) (*Linear, error) {
		return nil, fmt.Errorf("shard: layer %s, slot %d: %w", l.Name, slot, err)
	}
	if l.Kind != KindLinear {
		return fail(fmt.Errorf("kind %q, want %q", l.Kind, KindLinear))
	}
	config, err := ParseLinearConfig(l.Config)
	if err != nil {
		return fail(err)
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return fail(err)
	}
	row := code.Row(slot)
	if row == nil {
		return fail(fmt.Errorf("code %v has no such row in a generator", code))
	}
	if err := config.Validate(l.Code.K, l.Chunks); err != nil {
		return fail(err)
	}
	f, r := config.sides(l.Code.K)
	s := &Linear{
		name: fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot), config: config,
		row: row, chunks: l.Chunks, pool: pool, f: newHalf(f),
	}
	if config.Backward {
		s.r = newHalf(r)
	}
	return s, nil
}

// Multiply implements coded.Shard. Forward takes X [batch, in] and gives the
// chunk's columns of X * sum_j G_ij W_j, Backward takes dY [batch, out] and
// gives the chunk's columns of dY * (sum_j G_ij W^j)^T.
func (s *Linear) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	h, err := s.half(p)
	if err != nil {
		return coded.Tensor{}, err
	}
	if err := s.check("operand", x, h.cols); err != nil {
		return coded.Tensor{}, err
	}
	if chunk < 0 || chunk >= s.chunks {
		return coded.Tensor{}, fmt.Errorf("%s: chunk %d of the %s product, want 0 to %d", s.name, chunk, p, s.chunks-1)
	}
	lo, hi := ChunkRange(h.rows, s.chunks, chunk)
	return h.multiply(s.pool, x, lo, hi), nil
}

func (s *Linear) half(p coded.Product) (*half, error) {
	switch {
	case p == coded.Forward:
		return &s.f, nil
	case p == coded.Backward && s.config.Backward:
		return &s.r, nil
	case p == coded.Backward:
		return nil, fmt.Errorf("%s: backward product of a layer that was placed without one", s.name)
	}
	return nil, fmt.Errorf("%s: unknown %s", s.name, p)
}

// check tells whether x is a matrix with the given columns.
func (s *Linear) check(what string, x coded.Tensor, cols int) error {
	if len(x.Shape) != 2 || x.Shape[0] < 1 || x.Shape[1] != cols || len(x.Data)/cols != x.Shape[0] || len(x.Data)%cols != 0 {
		return fmt.Errorf("%s: %s has shape %v and %d values, want [batch %d]", s.name, what, x.Shape, len(x.Data), cols)
	}
	return nil
}

// Accumulate implements coded.Shard:
//
//	dF_i += (sum_j G_ij dY_j)^T X;  dR_i += (sum_j G_ij X_j)^T dY
func (s *Linear) Accumulate(x, dy coded.Tensor) error {
	if err := s.check("X", x, s.config.In); err != nil {
		return err
	}
	if err := s.check("dY", dy, s.config.Out); err != nil {
		return err
	}
	if x.Shape[0] != dy.Shape[0] {
		return fmt.Errorf("%s: X of %d rows with dY of %d rows", s.name, x.Shape[0], dy.Shape[0])
	}
	if err := s.f.accumulate(s.pool, s.row, dy, x, !s.pending); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.config.Backward {
		if err := s.r.accumulate(s.pool, s.row, x, dy, !s.pending); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	s.pending = true
	return nil
}

// Apply implements coded.Shard. An update of a step that is not after the last
// one has been applied already and changes nothing. Without a gradient the
// weights stay as they are, like a parameter without a gradient in PyTorch.
func (s *Linear) Apply(u coded.Update) error {
	if err := validUpdate(u); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if u.Step <= s.step {
		return nil
	}
	s.step = u.Step
	if !s.pending {
		return nil
	}
	s.f.apply(u)
	if s.config.Backward {
		s.r.apply(u)
	}
	s.pending = false
	return nil
}

// State implements coded.Shard: F and its momentum, then R and its momentum if
// the layer was placed with Backward.
func (s *Linear) State() []coded.Tensor {
	if !s.config.Backward {
		return []coded.Tensor{s.f.w, s.f.v}
	}
	return []coded.Tensor{s.f.w, s.f.v, s.r.w, s.r.v}
}

// SetState implements coded.Shard. It drops the pending gradient and forgets
// the step of the last update, which belongs to the old state.
func (s *Linear) SetState(state []coded.Tensor) error {
	own := s.State()
	if len(state) != len(own) {
		return fmt.Errorf("%s: state of %d tensors, want %d", s.name, len(state), len(own))
	}
	for i, t := range own {
		if !slices.Equal(state[i].Shape, t.Shape) || len(state[i].Data) != len(t.Data) {
			return fmt.Errorf("%s: tensor %d of the state has shape %v and %d values, want %v", s.name, i, state[i].Shape, len(state[i].Data), t.Shape)
		}
	}
	for i, t := range own {
		copy(t.Data, state[i].Data)
	}
	s.pending, s.step = false, 0
	return nil
}

// Flops is the number of floating-point operations of a whole product of an
// operand with so many rows; a chunk takes its share of them.
func (s *Linear) Flops(p coded.Product, rows int) float64 {
	h, err := s.half(p)
	if err != nil {
		return 0
	}
	return 2 * float64(rows) * float64(h.rows) * float64(h.cols)
}

// UpdateFlops is the same for Accumulate, the costly part of an update.
func (s *Linear) UpdateFlops(rows int) float64 {
	return s.Flops(coded.Forward, rows) + s.Flops(coded.Backward, rows)
}
