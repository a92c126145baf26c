package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// resident is what the shards of all kinds of resident layers have in common:
// the two coded copies, and how the optimiser and a repair treat them.
type resident struct {
	name     string    // for errors: "shard: layer fc1, slot 3"
	row      []float64 // coefficients of the slot over the k blocks
	chunks   int
	pool     *kernel.Pool
	backward bool // R is kept
	f, r     half // r is empty without backward
	// pending tells that f and r have a gradient.
	pending bool
	step    int    // of the last update
	changes uint64 // of the weights: how often they have changed
}

// newResident makes the shard of a layer at a slot, with copies of zeros.
func newResident(l coded.Layer, slot int, c Config, pool *kernel.Pool) (resident, error) {
	code, err := coded.New(l.Code)
	if err != nil {
		return resident{}, err
	}
	row := code.Row(slot)
	if row == nil {
		return resident{}, fmt.Errorf("code %v has no such row in a generator", code)
	}
	if err := c.Validate(l.Code.K, l.Chunks); err != nil {
		return resident{}, err
	}
	s := resident{name: fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot), row: row, chunks: l.Chunks, pool: pool}
	f, r := c.copies(l.Code.K)
	s.f = newHalf(f...)
	if s.backward = r != nil; s.backward {
		s.r = newHalf(r...)
	}
	return s, nil
}

// half returns the copy that a product is made with.
func (s *resident) half(p coded.Product) (*half, error) {
	switch {
	case p == coded.Forward:
		return &s.f, nil
	case p == coded.Backward && s.backward:
		return &s.r, nil
	case p == coded.Backward:
		return nil, fmt.Errorf("%s: backward product of a layer that was placed without one", s.name)
	}
	return nil, fmt.Errorf("%s: unknown %s", s.name, p)
}

func (s *resident) checkChunk(p coded.Product, chunk int) error {
	if chunk < 0 || chunk >= s.chunks {
		return fmt.Errorf("%s: chunk %d of the %s product, want 0 to %d", s.name, chunk, p, s.chunks-1)
	}
	return nil
}

// Apply implements coded.Shard. An update of a step that is not after the last
// one has been applied already and changes nothing. Without a gradient the
// weights stay as they are, like a parameter without a gradient in PyTorch.
func (s *resident) Apply(u coded.Update) error {
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
	if s.backward {
		s.r.apply(s.pool, u)
	}
	s.f.apply(s.pool, u) // last: the next product is made with F
	s.pending = false
	s.changes++
	return nil
}

// State implements coded.Shard: F and its momentum, then R and its momentum if
// the layer was placed with Backward.
func (s *resident) State() []coded.Tensor {
	if !s.backward {
		return []coded.Tensor{s.f.w, s.f.v}
	}
	return []coded.Tensor{s.f.w, s.f.v, s.r.w, s.r.v}
}

// SetState implements coded.Shard. A state without the momenta is one with momenta of
// zeros. It drops the pending gradient and forgets the step of the last update, which
// belongs to the old state.
func (s *resident) SetState(state []coded.Tensor) error {
	own := s.State()
	at := func(i int) int { return i } // the tensor of the given state for one of the shard's
	if len(state) == len(own)/2 {
		at = func(i int) int { return i / 2 }
	} else if len(state) != len(own) {
		return fmt.Errorf("%s: state of %d tensors, want %d, or %d without momenta", s.name, len(state), len(own), len(own)/2)
	}
	for i, t := range own {
		if given := state[at(i)]; !slices.Equal(given.Shape, t.Shape) || len(given.Data) != len(t.Data) {
			return fmt.Errorf("%s: tensor %d of the state has shape %v and %d values, want %v", s.name, at(i), given.Shape, len(given.Data), t.Shape)
		}
	}
	for i, t := range own {
		if i%2 == 1 && len(state) < len(own) {
			clear(t.Data)
			continue
		}
		copy(t.Data, state[at(i)].Data)
	}
	s.pending, s.step = false, 0
	s.changes++
	s.f.late, s.r.late = late{}, late{}
	return nil
}
