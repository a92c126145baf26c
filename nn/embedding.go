package nn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Embedding looks up rows of a table: for x [batch, ...] of whole numbers from
// 0, held as float32 like every input, the output is [batch, ..., dim].
type Embedding struct {
	Weight *Param // [vocabulary, dim]
}

// maxVocabulary is up to where every whole number is a float32.
const maxVocabulary = 1 << 24

// NewEmbedding returns a table drawn from a standard normal distribution, as
// PyTorch's, unless WeightInit says otherwise.
func NewEmbedding(rng *rand.Rand, vocabulary, dim int, opts ...Option) *Embedding {
	o := newOptions(append([]Option{WeightInit(Normal(1))}, opts...))
	l := &Embedding{Weight: NewParam(vocabulary, dim)}
	o.weightInit(rng, l.Weight.Value.Data, vocabulary, dim)
	return l
}

// Forward adds the layer to the graph.
func (l *Embedding) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.Name(l, "embedding")
	if l.Weight == nil || len(l.Weight.Value.Shape) != 2 || l.Weight.Value.Shape[0] > maxVocabulary {
		return nil, fmt.Errorf("nn: layer %s: no weight of shape [vocabulary, dim], the vocabulary at most %d", name, maxVocabulary)
	}
	vocabulary, dim := l.Weight.Value.Shape[0], l.Weight.Value.Shape[1]
	w, err := g.Param(l.Weight)
	if err != nil {
		return nil, err
	}
	ids := make([]int32, size(x.Shape())) // of the last run, for the gradient
	return g.apply(opSpec{
		layer: name, kind: "embedding", in: []*gorgonia.Node{x, w},
		shape: append(x.Shape().Clone(), dim), diff: []bool{false, true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			for i, id := range v[0] {
				if !(id >= 0 && id < float32(vocabulary)) || math.Trunc(float64(id)) != float64(id) {
					return fmt.Errorf("id %v at position %d, want a whole number from 0 to %d", id, i, vocabulary-1)
				}
				ids[i] = int32(id)
			}
			return kernel.Embedding(rc.pool, v[1], vocabulary, dim, ids, y)
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dw, err := g.apply(opSpec{
				layer: name, kind: "embedding backward", in: []*gorgonia.Node{dy, y}, shape: []int{vocabulary, dim},
				run: func(rc *runContext, v [][]float32, dw []float32) error {
					return kernel.EmbeddingBackward(rc.pool, v[0], vocabulary, dim, ids, dw)
				},
			})
			return []*gorgonia.Node{nil, dw}, err
		},
	})
}
