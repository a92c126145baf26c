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
		KindStacked:  factory(pool, NewStacked),
		KindLinear:   factory(pool, NewLinear),
		KindConv2d:   factory(pool, NewConv2d),
		KindBatch:    factory(pool, NewBatch),
		KindGradient: factory(pool, NewGradient),
		KindShipped:  factory(pool, NewShipped),
	}
}

func factory[S coded.Shard](pool *kernel.Pool, build func(coded.Layer, int, *kernel.Pool) (S, error)) coded.Factory {
	return func(l coded.Layer, slot int) (coded.Shard, error) {
		s, err := build(l, slot, pool)
		if err != nil { // not a nil S in a Shard
			return nil, err
		}
		return s, nil
	}
}
