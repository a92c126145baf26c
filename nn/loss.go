package nn

import (
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// crossEntropy is the mean over the batch of the cross entropy between the
// softmax of the logits and the labels, as one operation:
//
//	loss = -1/n sum_i sum_c t[i,c] log softmax(logits[i])[c],  t = (1-s) [c = label_i] + s/classes
//
// s being the label smoothing (Szegedy et al. 2016, section 7). It keeps what
// the graph's float32 scalar cannot hold: the loss in float64.
type crossEntropy struct {
	smoothing float64
	labels    []int32
	loss      float64
}

// add adds the loss of logits [batch, classes] to the graph. The gradient is
// a by-product of the loss, so the forward operation computes it.
func (c *crossEntropy) add(g *Graph, logits *gorgonia.Node) (*gorgonia.Node, error) {
	batch, classes := logits.Shape()[0], logits.Shape()[1]
	grad := make([]float32, batch*classes)
	return g.apply(opSpec{
		layer: "loss", kind: "softmax cross entropy", in: []*gorgonia.Node{logits}, diff: []bool{true},
		run: func(_ *runContext, v [][]float32, out []float32) (err error) {
			c.loss, err = kernel.SoftmaxCrossEntropy(v[0], c.labels, batch, classes, c.smoothing, grad)
			out[0] = float32(c.loss)
			return err
		},
		grad: func(g *Graph, loss, dloss *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.apply(opSpec{
				layer: "loss", kind: "softmax cross entropy backward",
				// loss is listed so that this runs after it.
				in: []*gorgonia.Node{loss, dloss}, shape: []int{batch, classes},
				run: func(_ *runContext, v [][]float32, dx []float32) error {
					for i, d := range grad {
						dx[i] = d * v[1][0]
					}
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
