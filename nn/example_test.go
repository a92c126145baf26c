package nn_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// XOR is learned by two layers and a hand-made step of gradient descent.
func Example() {
	rng := rand.New(rand.NewPCG(3, 0))
	model := nn.Sequential{nn.NewLinear(rng, 2, 8), nn.ReLU{}, nn.NewLinear(rng, 8, 2)}
	net, err := nn.NewNetwork(model, []int{2}, nn.Config{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer net.Close()

	ctx := context.Background()
	x, labels := []float32{0, 0, 0, 1, 1, 0, 1, 1}, []int32{0, 1, 1, 0}
	for step := 1; step <= 300; step++ {
		if _, _, err := net.Train(ctx, step, x, labels); err != nil {
			log.Fatal(err)
		}
		for _, p := range net.Params() {
			for i, g := range p.Grad {
				p.Value.Data[i] -= 0.5 * g
			}
		}
	}
	_, correct, err := net.Evaluate(ctx, x, labels)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(correct, "of", len(labels), "correct")
	// Output: 4 of 4 correct
}

// Net is a model of one's own: fields for its layers, and a Forward.
type Net struct {
	Hidden1, Hidden2 *nn.Linear
	Classifier       nn.Sequential
}

// Forward passes x through the layers.
func (p *Net) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	h, err := nn.Chain(g, x, p.Hidden1, nn.ReLU{}, p.Hidden2, nn.ReLU{})
	if err != nil {
		return nil, err
	}
	return p.Classifier.Forward(g, h)
}

func ExampleParams() {
	rng := rand.New(rand.NewPCG(1, 0))
	model := &Net{
		Hidden1:    nn.NewLinear(rng, 4, 3),
		Hidden2:    nn.NewLinear(rng, 3, 3),
		Classifier: nn.Sequential{nn.NewLinear(rng, 3, 2, nn.NoBias())},
	}
	params, err := nn.Params(model)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		fmt.Println(p.Name, p.Value.Shape)
	}
	// Output:
	// hidden1.weight [3 4]
	// hidden1.bias [3]
	// hidden2.weight [3 3]
	// hidden2.bias [3]
	// classifier.0.weight [2 3]
}
