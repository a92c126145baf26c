package shard

import (
	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Factories returns the factory of every kind of layer, by coded.Layer.Kind.
// The shards compute on the goroutine of their caller.
func Factories() map[string]coded.Factory { return FactoriesOn(nil) }

// FactoriesOn is Factories with a pool on which the shards compute.
func FactoriesOn(pool *kernel.Pool) map[string]coded.Factory {
	return map[string]coded.Factory{
		KindLinear: func(l coded.Layer, slot int) (coded.Shard, error) {
			s, err := NewLinear(l, slot, pool)
			if err != nil { // not a nil *Linear in a Shard
				return nil, err
			}
			return s, nil
		},
	}
}
