package nn_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// Square computes x*x.
type Square struct{}

// Forward adds the operation to the graph.
func (Square) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.Apply(nn.Op{
		Kind: "square", In: []*gorgonia.Node{x}, Shape: x.Shape(),
		Forward: func(c *nn.Call) error {
			for i, v := range c.In[0] {
				c.Out[i] = v * v
			}
			return nil
		},
		Backward: func(c *nn.Call) error {
			for i, v := range c.In[0] {
				c.GradIn[0][i] = 2 * v * c.GradOut[i]
			}
			return nil
		},
	})
}

// A layer of one's own: what it computes and its derivative, checked against
// finite differences.
func ExampleGraph_Apply() {
	fmt.Println("wrong gradients:", nn.CheckGradients(Square{}, []int{4, 3}, nn.GradientCheck{}))

	rng := rand.New(rand.NewPCG(1, 0))
	model := nn.Sequential{Square{}, nn.NewLinear(rng, 2, 1, nn.WeightInit(ones), nn.NoBias())}
	net, err := nn.NewNetwork(model, []int{2}, nn.Config{Loss: nn.MSE{}})
	if err != nil {
		log.Fatal(err)
	}
	defer net.Close()
	y, err := net.Predict(context.Background(), []float32{3, 4})
	fmt.Println("3*3 + 4*4 =", y, err)
	// Output:
	// wrong gradients: <nil>
	// 3*3 + 4*4 = [25] <nil>
}

func ones(_ *rand.Rand, w []float32, _, _ int) {
	for i := range w {
		w[i] = 1
	}
}
