package models_test

import (
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

const placedBatch = 8 // enough for the fastest kernels of convolutions

// TestPlacedLayers compares every kind of layer of the models, on equal X and dY,
// with the local layer: Y, dX and the gradients of its parameters.
func TestPlacedLayers(t *testing.T) {
	for placement, on := range placements {
		for name, shape := range placedModels {
			if name == "vgg-small" && placement != "shipped" && !*exhaustive {
				continue // millions of weights to encode for every slot
			}
			t.Run(placement+"/"+name, func(t *testing.T) {
				t.Parallel()
				layers, err := nn.Describe(newModelFor(t, name, shape), shape)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				worst := 0.0
				for _, l := range layers {
					if l.Kind != "linear" && l.Kind != "conv2d" {
						continue
					}
					key := fmt.Sprint(l.Kind, l.Input, l.Output, l.Parameters)
					if seen[key] {
						continue
					}
					seen[key] = true
					worst = max(worst, comparePlaced(t, name, shape, l, on))
				}
				t.Logf("worst difference %.1e of the largest entry", worst)
			})
		}
	}
}

// comparePlaced compares one layer of a model and returns the worst difference.
func comparePlaced(t *testing.T, model string, shape []int, l nn.LayerInfo, on func(coded.Executor, coded.Spec) nn.Placement) (worst float64) {
	t.Helper()
	local := newAlone(t, model, shape, l, nil)
	x := make([]float32, placedBatch*volume(l.Input))
	for i, r := 0, rng(4); i < len(x); i++ {
		x[i] = float32(r.NormFloat64())
	}
	want := local.run(t, 1, x)
	for code, sets := range survivors() {
		if !fits(local.layer, on(nil, code), code.K) {
			continue
		}
		var set []int
		next := shard.EverySet()
		choose := shard.Survivors(func(c *coded.Code, r coded.Round, chunk int) []int {
			if c.Threshold() != len(set) { // a coded gradient of batches needs more of them
				return next(c, r, chunk)
			}
			return set
		})
		if !*exhaustive {
			choose, sets = next, make([][]int, 2)
		}
		placed := newAlone(t, model, shape, l, on(shard.NewLocal(shard.LocalConfig{Survivors: choose}), code))
		for i, s := range sets {
			set = s
			for name, got := range placed.run(t, i+1, x) {
				d := apart(got, want[name])
				if worst = max(worst, d); !(d <= 1e-5) {
					t.Errorf("layer %s, %v, answers %v: %s differs by %.1e of its largest entry, want at most 1e-5", l.Name, code, set, name, d)
				}
			}
		}
	}
	return worst
}

// survivors are all sets of answers of a (6,4) code and 50 random ones of (8,6).
func survivors() map[coded.Spec][][]int {
	six, eight := trigonometric(6, 4), trigonometric(8, 6)
	sets := map[coded.Spec][][]int{}
	for bits := range 1 << 6 {
		var s []int
		for i := range 6 {
			if bits>>i&1 == 1 {
				s = append(s, i)
			}
		}
		if len(s) == 4 {
			sets[six] = append(sets[six], s)
		}
	}
	for r := rng(6); len(sets[eight]) < 50; {
		s := r.Perm(8)[:6]
		slices.Sort(s)
		sets[eight] = append(sets[eight], s)
	}
	return sets
}

// alone is a layer of a model between a probe, which sees the gradient of its
// input, and a loss whose gradient is fixed. The first layer of a model has no
// probe, since nobody wants the gradient of its input.
type alone struct {
	Probe *probe `nn:",optional"`
	Layer nn.Module

	net   *nn.Network
	out   []float32
	layer nn.Placeable
}

func newAlone(t *testing.T, model string, shape []int, l nn.LayerInfo, on nn.Placement) *alone {
	t.Helper()
	products, err := nn.Placeables(newModelFor(t, model, shape))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(products, func(p nn.Placeable) bool { return p.Name == l.Name })
	a := &alone{Layer: products[i].Layer, layer: products[i]}
	if on != nil {
		products[i].Layer.Place(on)
	}
	if !products[i].First {
		a.Probe = &probe{Dummy: nn.NewParam(1)}
	}
	a.net = networkFor(t, a, l.Input, nn.Config{Threads: 1, Loss: nn.LossFunc{Mean: func(b nn.LossBatch) (float64, error) {
		a.out = slices.Clone(b.Out)
		for i, r := 0, rng(5); i < len(b.Grad); i++ {
			b.Grad[i] = float32(r.NormFloat64())
		}
		return 0, nil
	}}})
	return a
}

func (a *alone) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	if a.Probe == nil {
		return nn.Chain(g, x, a.Layer, nn.Flatten{})
	}
	return nn.Chain(g, x, a.Probe, a.Layer, nn.Flatten{})
}

// run makes a step and returns everything that the layer has computed.
func (a *alone) run(t *testing.T, step int, x []float32) map[string][]float32 {
	t.Helper()
	all := gradients(t, a, a.net, step, func() error {
		_, err := a.net.TrainTargets(t.Context(), step, x, make([]float32, placedBatch*a.net.Outputs()))
		return err
	})
	delete(all, "probe.dummy")
	all["Y"] = a.out
	if a.Probe != nil {
		all["dX"] = a.Probe.grad
	}
	return all
}

// probe hands its input on and keeps the gradient.
type probe struct {
	Dummy *nn.Param // without anything to train before it, nobody wants the gradient
	grad  []float32
}

func (p *probe) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	dummy, err := g.Param(p.Dummy)
	if err != nil {
		return nil, err
	}
	return g.Apply(nn.Op{
		Kind: "probe", In: []*gorgonia.Node{x, dummy}, Shape: x.Shape(),
		Forward:  func(c *nn.Call) error { copy(c.Out, c.In[0]); return nil },
		Backward: func(c *nn.Call) error { p.grad = slices.Clone(c.GradOut); c.GradIn[1][0] = 0; return nil },
	})
}
