package nn

import (
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
)

// plain hides what a module is, so that Chain cannot fuse it.
type plain struct{ M Module }

func (p plain) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) { return p.M.Forward(g, x) }

// TestFusionChangesNothing: a chain and the same chain module by module give
// the same bits, forward and backward, with fewer operations.
func TestFusionChangesNothing(t *testing.T) {
	fused, shape := smallNet()
	unfused := make(Sequential, len(fused))
	for i, m := range fused {
		unfused[i] = plain{m}
	}
	x, labels := batchFor(shape, 5, 3)
	var losses [2]float64
	var grads [2][]float32
	var ops [2]int
	for i, model := range []Module{fused, unfused} {
		net := newNetwork(t, model, shape, Config{Threads: 1})
		var err error
		if losses[i], _, err = net.Train(t.Context(), 1, x, labels); err != nil {
			t.Fatal(err)
		}
		grads[i], ops[i] = slices.Clone(flatGrads(net)), len(net.programs[0].g.ops)
	}
	if losses[0] != losses[1] || !slices.Equal(grads[0], grads[1]) {
		t.Errorf("fused loss %v, unfused %v; gradients equal: %v", losses[0], losses[1], slices.Equal(grads[0], grads[1]))
	}
	// Four ReLUs vanish forward; those at pooling vanish backward as well.
	if ops[1]-ops[0] != 6 {
		t.Errorf("%d operations fused, %d unfused", ops[0], ops[1])
	}
}
