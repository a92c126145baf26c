package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
)

// everyLayer returns modules for samples of shape [channels, 6, 6]: every kind,
// alone and in every fusion.
func everyLayer(channels int) map[string]Module {
	rng := newRand(3)
	norm := func() Module { return NewBatchNorm(channels, BatchNormConfig{}) }
	pool := MaxPool2d{Kernel: 2}
	layers := map[string]Module{
		"relu": ReLU{}, "leaky": LeakyReLU{}, "gelu": GELU{}, "silu": SiLU{}, "tanh": Tanh{}, "sigmoid": Sigmoid{}, "softplus": Softplus{},
		"elu": ELU{}, "hardswish": Hardswish{}, "softmax": Softmax{}, "log softmax": LogSoftmax{}, "dropout": Dropout{Rate: 1e-9}, "flatten": Flatten{},
		"layernorm": NewLayerNorm(channels, 6, 6), "batchnorm": norm(), "batchnorm, relu": Sequential{norm(), ReLU{}},
		"frozen": NewBatchNorm(channels, BatchNormConfig{Frozen: true}), "vectors": Sequential{GlobalAvgPool2d{}, norm()},
		"maxpool": pool, "relu, maxpool": Sequential{ReLU{}, pool}, "maxpool, relu": Sequential{pool, ReLU{}}, "maxpool 3": MaxPool2d{Kernel: 3, Stride: 2, Padding: 1},
		"avgpool": AvgPool2d{Kernel: 2}, "global": GlobalAvgPool2d{}, "adaptive": AdaptiveAvgPool2d{Height: 4, Width: 5},
		"linear":   Sequential{Flatten{}, NewLinear(rng, channels*36, 9)},
		"hidden":   Sequential{Flatten{}, NewLinear(rng, channels*36, 9), ReLU{}},
		"concat":   Concat{ReLU{}, Tanh{}},
		"residual": &Residual{Body: Sequential{Tanh{}}, ReLU: true},
		"block":    &Residual{Body: Sequential{Tanh{}, norm()}, ReLU: true},
	}
	for _, kernel := range []int{1, 3, 5} {
		for _, groups := range []int{1, channels} {
			conv := func() Module {
				return NewConv2d(rng, channels, channels, kernel, Conv2dConfig{Padding: kernel / 2, Groups: groups})
			}
			name := fmt.Sprintf("conv %d in %d groups", kernel, groups)
			layers[name] = conv()
			layers[name+", relu"] = Sequential{conv(), ReLU{}}
			layers[name+", relu, maxpool"] = Sequential{conv(), ReLU{}, pool}
			layers[name+", batchnorm, relu"] = Sequential{conv(), norm(), ReLU{}}
		}
	}
	return layers
}

// TestNaNGoesThrough: no layer hides that one number of its input is NaN, so
// that the loss tells, and none is the worse for it afterwards.
func TestNaNGoesThrough(t *testing.T) {
	const channels, batch = 8, 2
	shape := []int{channels, 6, 6}
	pool := kernel.NewPool(1)
	defer pool.Close()
	for name, m := range everyLayer(channels) {
		net := newNetwork(t, Sequential{m, Flatten{}}, shape, Config{Pool: pool})
		x := normals(newRand(5), batch*size(shape))
		evaluate := func(x []float32) []float32 {
			out, err := net.Predict(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		train := func(x []float32) []float32 {
			return newBench(t, m, append([]int{batch}, shape...), x, normals(newRand(6), batch*net.Outputs()), true).out
		}
		// Evaluation first: training moves the running statistics.
		for _, run := range []func([]float32) []float32{evaluate, train} {
			if !finite(run(x)) {
				t.Fatalf("%s: not finite before there is a NaN", name)
			}
			for _, at := range []int{0, 1, 35, 36, len(x)/2 - 1, len(x)/2 + 7, len(x) - 1} {
				spoilt := slices.Clone(x)
				spoilt[at] = float32(math.NaN())
				if !math.IsNaN(float64(kernel.MaxAbs(run(spoilt)))) {
					t.Errorf("%s: NaN in place %d is lost", name, at)
				}
			}
		}
	}
}

// TestNaNDoesNotStay: what a layer keeps from run to run forgets a NaN.
func TestNaNDoesNotStay(t *testing.T) {
	const channels, batch = 8, 2
	shape := []int{channels, 6, 6}
	x := normals(newRand(5), batch*size(shape))
	spoilt := slices.Clone(x)
	for i := range spoilt {
		spoilt[i] = float32(math.NaN())
	}
	for name, m := range everyLayer(channels) {
		net := newNetwork(t, Sequential{m, Flatten{}, &through{Weight: paramOf(1), run: func(*runContext) error { return nil }}}, shape, Config{Threads: 1, Loss: MSE{}})
		targets := make([]float32, batch*net.Outputs())
		want, err := net.TrainTargets(t.Context(), 1, x, targets)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.TrainTargets(t.Context(), 2, spoilt, targets); !contains(err, "step 2: loss is NaN; first not finite: the input") {
			t.Errorf("%s: error %v", name, err)
		}
		if got, err := net.TrainTargets(t.Context(), 1, x, targets); err != nil || got != want {
			t.Errorf("%s: after NaN the loss is %v, before %v; error %v", name, got, want, err)
		}
	}
}

// paramOf returns a parameter of given numbers.
func paramOf(values ...float32) *Param {
	p := NewParam(len(values))
	copy(p.Value.Data, values)
	return p
}
