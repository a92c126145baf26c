package nn

import (
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
)

// TestTapeIsGorgonias: on the tape a graph gives the bits that it gives on
// gorgonia's machine: loss, outputs, gradients and buffers, of training and of
// evaluation.
func TestTapeIsGorgonias(t *testing.T) {
	for name, build := range map[string]func() (Sequential, []int){
		"small": smallNet, "odd": oddNet, "normalised": normalisedNet, "branching": branchingNet, "layers": layersNet,
	} {
		run := func(machine bool) (all []float32) {
			model, shape := build()
			net := newNetwork(t, model, shape, Config{Threads: 2, Seed: 3})
			x, labels := batchFor(shape, 5, 1)
			for _, training := range []bool{true, false} {
				p, err := net.program(x, len(labels), training)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := p.vm.(*tape); !ok {
					t.Fatalf("%s runs on a %T", name, p.vm)
				}
				if machine {
					p.vm = gorgonia.NewTapeMachine(p.g.ex)
				}
			}
			for step := range 3 {
				loss, _, err := net.Train(t.Context(), step+1, x, labels)
				if err != nil {
					t.Fatal(err)
				}
				logits, err := net.Predict(t.Context(), x)
				if err != nil {
					t.Fatal(err)
				}
				all = slices.Concat(all, []float32{float32(loss)}, flatGrads(net), logits)
				descend(net, 0.1)
			}
			return all
		}
		if !slices.Equal(run(false), run(true)) {
			t.Errorf("%s: not the bits of gorgonia's machine", name)
		}
	}
}

// TestForeignGraphsHaveTheirMachine: what is not ours needs gorgonia's.
func TestForeignGraphsHaveTheirMachine(t *testing.T) {
	net := newNetwork(t, Sequential{NewLinear(newRand(1), 4, 4), foreign{}}, []int{4}, Config{Threads: 1})
	p, err := net.program(make([]float32, 8), 2, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.vm.(*tape); ok {
		t.Error("a graph with an operation of gorgonia's is on the tape")
	}
}
