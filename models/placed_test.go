package models_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/optim"
)

// exhaustive takes every set of answers in turn for whole products, in place of
// different ones for the chunks of a few products:
//
//	go test ./models -run Placed -exhaustive -timeout 30m
var exhaustive = flag.Bool("exhaustive", false, "compare placed layers for every set of answers")

// placements are those that a model's layers are put on.
var placements = map[string]func(e coded.Executor, code coded.Spec) nn.Placement{
	"resident": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Resident{Executor: e, Code: code, Chunks: 4}
	},
	"resident by batch": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Resident{Executor: e, Code: code, Chunks: 4, ByBatch: true}
	},
	"batch": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Batch{Executor: e, Code: code, Chunks: 4}
	},
	"batch with coded gradient": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Batch{Executor: e, Code: code, Chunks: 2, Gradient: coded.Spec{Name: "trigonometric-matdot", N: code.N, P: code.K}}
	},
	"shipped": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Shipped{Executor: e, Code: twoSided(code), Chunks: 2}
	},
}

// twoSided is a code for both factors of which as many answers of as many suffice. The
// worst condition numbers of codes of rotations are 4.7 and 7.2; those of ortho-polynomial
// codes, 28 and 86, turn the rounding of sums over hundreds of products into 1.1e-5.
func twoSided(code coded.Spec) coded.Spec {
	return coded.Spec{Name: "rotation", N: code.N, M: code.K, Q: 4}
}

// fits tells whether a layer has enough inputs and outputs for a placement with a code.
func fits(p nn.Placeable, on nn.Placement, k int) bool {
	in, out, groups := p.Shape()
	leastIn, leastOut := k, k
	if s, ok := on.(*nn.Shipped); ok { // cuts the input of a first layer too, for its gradient
		leastIn, leastOut = s.Code.Q, max(s.Code.M, s.Code.Q)
	} else if p.First {
		leastIn = 1
	}
	return out/groups >= leastOut && in/groups >= leastIn
}

// placedModels are the models with the size of the images that they are tried on.
var placedModels = map[string][]int{"mlp": {1, 28, 28}, "convnet": {1, 28, 28}, "vgg-small": {3, 16, 16}, "resnet20": {3, 16, 16}}

const placedBatch = 3

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

func trigonometric(n, k int) coded.Spec { return coded.Spec{Name: "trigonometric", N: n, K: k} }

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

// TestPlacedNetworks compares the gradients of whole networks. They have SiLU in
// place of ReLU and averages in place of maxima: a kink would amplify rounding.
func TestPlacedNetworks(t *testing.T) {
	for placement, on := range placements {
		for name, shape := range placedModels {
			t.Run(placement+"/"+name, func(t *testing.T) {
				t.Parallel()
				x, labels := randomBatch(rng(9), placedBatch, shape)
				step := func(m nn.Module, number int) map[string][]float32 {
					net := networkFor(t, m, shape, nn.Config{Threads: 1})
					return gradients(t, m, net, number, func() error {
						_, _, err := net.Train(t.Context(), number, x, labels)
						return err
					})
				}
				want := step(smooth(t, newModelFor(t, name, shape)), 1)
				model := smooth(t, newModelFor(t, name, shape))
				placeAll(t, model, on(shard.NewLocal(shard.LocalConfig{Survivors: shard.EverySet()}), trigonometric(6, 4)), 4)
				steps, worst := 1, 0.0
				if *exhaustive {
					steps = 15
				}
				for i := range steps {
					for param, got := range step(model, i+1) {
						d := apart(got, want[param])
						if worst = max(worst, d); !(d <= 5e-5) {
							t.Errorf("gradient of %s differs by %.1e of its largest entry, want at most 5e-5", param, d)
						}
					}
				}
				t.Logf("worst difference %.1e of the largest entry", worst)
			})
		}
	}
}

// TestPlacedLosses compares the losses of the first twenty steps. Rounding grows
// as training goes on, the faster the larger the steps and the smaller the batches
// that are normalised: with a rate of 0.01 and 4 images two runs of ResNet-20 are
// 4e-2 apart.
func TestPlacedLosses(t *testing.T) {
	for placement, on := range placements {
		for name, shape := range placedModels {
			if name == "vgg-small" && !*exhaustive {
				continue // many seconds
			}
			t.Run(placement+"/"+name, func(t *testing.T) {
				t.Parallel()
				model := newModelFor(t, name, shape)
				placeAll(t, model, on(shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(3)}), trigonometric(6, 4)), 4)
				want, got := losses(t, newModelFor(t, name, shape), shape), losses(t, model, shape)
				for i := range want {
					if !(math.Abs(got[i]-want[i]) <= 1e-3) {
						t.Errorf("step %d: loss %.6f, local %.6f", i+1, got[i], want[i])
					}
				}
				if want[len(want)-1] > want[0]-0.02 {
					t.Errorf("losses %v: nothing was learnt", want)
				}
			})
		}
	}
}

// losses trains on the same small batches again and again.
func losses(t *testing.T, m nn.Module, shape []int) (list []float64) {
	t.Helper()
	if err := nn.Place(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	net := networkFor(t, m, shape, nn.Config{Threads: 1})
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.001), Momentum: 0.9, Nesterov: true, Decay: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 20; step++ {
		x, labels := randomBatch(rng(uint64(step%2)), 12, shape)
		loss, _, err := net.Train(t.Context(), step, x, labels)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, loss)
		var params []optim.Param
		for _, p := range net.Params() {
			if !p.Remote {
				params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
			}
		}
		if err := sgd.Step(step, params); err != nil {
			t.Fatal(err)
		}
		update, err := sgd.Linear("any")
		if err != nil {
			t.Fatal(err)
		}
		u, err := update(step)
		if err != nil {
			t.Fatal(err)
		}
		if err := nn.UpdatePlaced(t.Context(), m, u); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// placeAll puts every layer of a model that can be on a placement.
func placeAll(t *testing.T, m nn.Module, on nn.Placement, k int) {
	t.Helper()
	products, err := nn.Placeables(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range products {
		if fits(p, on, k) {
			p.Layer.Place(on)
		}
	}
}

// smooth makes a network without kinks of a model's layers.
func smooth(t *testing.T, m nn.Module) nn.Module {
	t.Helper()
	pool, act := nn.AvgPool2d{Kernel: 2}, nn.SiLU{}
	switch m := m.(type) {
	case *models.MLP:
		return nn.Sequential{nn.Flatten{}, m.FC1, act, m.FC2, act, m.FC3}
	case *models.Convnet:
		return nn.Sequential{m.Conv1, act, pool, m.Conv2, act, pool, m.Conv3, act, pool, nn.Flatten{}, m.FC1, act, m.FC2}
	case *models.CIFARResNet:
		list := nn.Sequential{m.Conv1, m.BN1, act}
		for _, b := range slices.Concat(m.Layer1, m.Layer2, m.Layer3) {
			list = append(list, &nn.Residual{Body: nn.Sequential{b.Conv1, b.BN1, act, b.Conv2, b.BN2}, Shortcut: b.Shortcut}, act)
		}
		return append(list, nn.GlobalAvgPool2d{}, m.FC)
	case nn.Sequential:
		var list nn.Sequential
		for _, l := range m {
			switch l.(type) {
			case nn.ReLU:
				list = append(list, act)
			case nn.MaxPool2d:
				list = append(list, pool)
			default:
				list = append(list, l)
			}
		}
		return list
	}
	t.Fatalf("%T: no smooth form", m)
	return nil
}

func newModelFor(t *testing.T, name string, shape []int) nn.Module {
	t.Helper()
	m, err := models.New(name, 10, shape, rng(7))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomBatch returns n images of a shape and their labels.
func randomBatch(rng *rand.Rand, n int, shape []int) ([]float32, []int32) {
	x, labels := make([]float32, n*volume(shape)), make([]int32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int32N(10)
	}
	return x, labels
}

func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// gradients makes a step and returns the gradient of every parameter. Those of
// weights on workers are never at the coordinator: an update with a rate of zero and
// momentum leaves the weights as they are, and the gradient as the momentum.
func gradients(t *testing.T, m nn.Module, net *nn.Network, step int, train func() error) map[string][]float32 {
	t.Helper()
	if err := nn.Place(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	if err := train(); err != nil {
		t.Fatal(err)
	}
	if err := nn.UpdatePlaced(t.Context(), m, coded.Update{Step: step, Momentum: 0.9, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	momenta, err := nn.Sync(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float32{}
	for _, p := range net.Params() {
		all[strings.TrimPrefix(p.Name, "layer.")] = slices.Clone(p.Grad)
		if p.Remote {
			all[strings.TrimPrefix(p.Name, "layer.")] = momenta[p.Name]
		}
	}
	return all
}

// apart is the largest difference over the largest entry of want.
func apart(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, most float64
	for i, v := range want {
		e := math.Abs(float64(got[i]) - float64(v))
		if math.IsNaN(e) {
			return math.Inf(1)
		}
		d, most = max(d, e), max(most, math.Abs(float64(v)))
	}
	return d / most
}
