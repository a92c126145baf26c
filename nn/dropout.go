package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Dropout sets entries of x to 0 with probability Rate and divides the others
// by 1-Rate (Srivastava et al. 2014); in evaluation it does nothing. Which
// entries is decided by Config.Seed, the step, the part of the step (Train,
// then each Accumulate) and the layer, nothing else: a run that is resumed
// drops what it would have dropped.
type Dropout struct {
	Rate float64 // from 0 to 1
}

// Forward adds the dropout to the graph.
func (d Dropout) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("dropout")
	if !(d.Rate >= 0 && d.Rate <= 1) {
		return nil, fmt.Errorf("nn: layer %s: rate %v, want 0 to 1", name, d.Rate)
	}
	if !g.Training() || d.Rate == 0 {
		return x, nil
	}
	layer := uint64(g.counts["dropout"])
	return g.dropout(name, x, func(rc *runContext, v [][]float32, y []float32) error {
		key := kernel.DropoutKey{Seed: rc.seed, Step: uint64(rc.step), Layer: uint64(rc.part)<<32 | layer}
		kernel.Dropout(rc.pool, y, v[0], d.Rate, key)
		return nil
	})
}

// dropout adds an operation that is its own derivative.
func (g *Graph) dropout(name string, x *gorgonia.Node, run func(*runContext, [][]float32, []float32) error) (*gorgonia.Node, error) {
	return g.apply(opSpec{
		layer: name, kind: "dropout", in: []*gorgonia.Node{x}, shape: x.Shape(), diff: []bool{true}, run: run,
		grad: func(g *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.dropout(name, dy, run)
			return []*gorgonia.Node{dx}, err
		},
	})
}
