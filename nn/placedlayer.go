package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// placedLayer is a layer that was placed.
type placedLayer struct {
	coded.Layer
	executor coded.Executor
	config   shard.Config
	backward bool // dX can be had
	decoder  *coded.Decoder
	gradient *batchGradient // of a Batch that has the workers compute it; else nil
}

// placedLayers are those of a placement, by weight.
type placedLayers map[*Param]*placedLayer

// put notes a layer that was placed, perhaps anew.
func (m *placedLayers) put(weight *Param, l placedLayer) {
	if *m == nil {
		*m = make(placedLayers)
	}
	if known := (*m)[weight]; known != nil {
		*known = l // graphs that were built already refer to it
	} else {
		(*m)[weight] = &l
	}
}

// use finds the layer of a product that is about to be added to a graph, and
// refuses what cannot be.
func (m placedLayers) use(g *Graph, p Product, x *gorgonia.Node) (*placedLayer, error) {
	l := m[p.Weight]
	if l == nil {
		return nil, fmt.Errorf("nn: layer %s has not been placed: call Place before the first step", p.Layer)
	}
	if l.Name != p.Layer {
		return nil, fmt.Errorf("nn: layer %s has been placed as %s: it must be used in the model that Place was given", p.Layer, l.Name)
	}
	for _, o := range g.ops {
		if o.layer == p.Layer && o.kind == forwardStart {
			return nil, fmt.Errorf("nn: layer %s: a placed layer can be used once in a model", p.Layer)
		}
	}
	if g.needsGrad(x) && !l.backward {
		return nil, fmt.Errorf("nn: layer %s: the gradient of its input is wanted, but no trainable parameter comes before it in the model: set InputGrad", p.Layer)
	}
	return l, nil
}

// settings are those that all placements have in common.
type settings struct {
	executor  coded.Executor
	code      coded.Spec
	chunks    int
	maxCond   float64
	inputGrad bool
}

// describe checks the settings of a layer's placement, and describes the layer to the
// workers; backward tells that dX can be had.
func (p *Placeable) describe(s settings) (code *coded.Code, c shard.Config, backward bool, err error) {
	switch {
	case s.executor == nil:
		return nil, nil, false, errNoExecutor
	case s.chunks < 1:
		return nil, nil, false, fmt.Errorf("%d chunks, want at least 1", s.chunks)
	case s.maxCond != 0 && !(s.maxCond >= 1):
		return nil, nil, false, fmt.Errorf("largest condition number %g, want at least 1, or 0 for %g", s.maxCond, coded.DefaultMaxCond)
	}
	if code, err = coded.New(s.code); err != nil {
		return nil, nil, false, err
	}
	backward = s.inputGrad || !p.First
	if c, err = p.module.shard(backward); err != nil {
		return nil, nil, false, fmt.Errorf("parameter %s: %w", p.Weight.Name, err)
	}
	return code, c, backward, nil
}

// oneSided checks that a code has one coded block of one factor for each of its slots.
func oneSided(code *coded.Code, placement string) error {
	if _, err := code.Generator(); err != nil {
		return fmt.Errorf("code %v: the %s placement needs a one-sided code, such as trigonometric", code, placement)
	}
	return nil
}
