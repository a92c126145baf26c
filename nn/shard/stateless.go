package shard

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// stateless is what shards have in common that hold nothing: both factors of their
// products are sent to them.
type stateless struct {
	name string // for errors: "shard: layer fc1, slot 3"
}

var errNoWeights = errors.New("the shard has no weights")

// Multiply implements coded.Shard: there is no product of one operand.
func (s *stateless) Multiply(p coded.Product, _ coded.Tensor, _ int) (coded.Tensor, error) {
	return coded.Tensor{}, fmt.Errorf("%s: %s product of one operand: %w", s.name, p, errNoWeights)
}

// Accumulate implements coded.Shard.
func (s *stateless) Accumulate(_, _ coded.Tensor) error {
	return fmt.Errorf("%s: accumulate: %w", s.name, errNoWeights)
}

// Apply implements coded.Shard: there is nothing to update.
func (s *stateless) Apply(coded.Update) error { return nil }

// State implements coded.Shard: there is none.
func (s *stateless) State() []coded.Tensor { return nil }

// SetState implements coded.Shard.
func (s *stateless) SetState(state []coded.Tensor) error {
	if len(state) > 0 {
		return fmt.Errorf("%s: state of %d tensors: %w", s.name, len(state), errNoWeights)
	}
	return nil
}
