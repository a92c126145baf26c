package models_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func network(t testing.TB, m nn.Module, c nn.Config) *nn.Network {
	t.Helper()
	return networkFor(t, m, []int{1, 28, 28}, c)
}

func networkFor(t testing.TB, m nn.Module, shape []int, c nn.Config) *nn.Network {
	t.Helper()
	net, err := nn.NewNetwork(m, shape, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	return net
}

// TestParameters pins names, shapes and sizes to what PyTorch's models of the
// same structure have: state dictionaries must be interchangeable.
func TestParameters(t *testing.T) {
	for name, want := range map[string]struct {
		size   int
		params string
	}{
		"mlp": {784*600 + 600 + 600*300 + 300 + 300*10 + 10,
			"fc1.weight [600 784], fc1.bias [600], fc2.weight [300 600], fc2.bias [300], fc3.weight [10 300], fc3.bias [10]"},
		"lenet": {61706,
			"conv1.weight [6 1 5 5], conv1.bias [6], conv2.weight [16 6 5 5], conv2.bias [16], " +
				"fc1.weight [120 400], fc1.bias [120], fc2.weight [84 120], fc2.bias [84], fc3.weight [10 84], fc3.bias [10]"},
		"convnet": {819557,
			"conv1.weight [32 1 3 3], conv1.bias [32], conv2.weight [64 32 3 3], conv2.bias [64], conv3.weight [128 64 3 3], conv3.bias [128], " +
				"fc1.weight [625 1152], fc1.bias [625], fc2.weight [10 625], fc2.bias [10]"},
	} {
		m, err := models.New(name, 10, []int{1, 28, 28}, rng(1))
		if err != nil {
			t.Fatal(err)
		}
		params, err := nn.Params(m)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		var list []string
		for _, p := range params {
			size += p.Size()
			list = append(list, fmt.Sprintf("%s %v", p.Name, p.Value.Shape))
		}
		if got := strings.Join(list, ", "); got != want.params {
			t.Errorf("%s has %s\nwant %s", name, got, want.params)
		}
		if size != want.size {
			t.Errorf("%s has %d numbers, want %d", name, size, want.size)
		}
	}
}

func TestSeedDecidesParameters(t *testing.T) {
	makers := map[string]func(*rand.Rand) (nn.Module, error){
		"vgg": func(r *rand.Rand) (nn.Module, error) {
			return models.NewVGG(models.VGGConfig{Stages: [5]int{1, 1, 1, 1, 1}, Hidden: 2}, 10, []int{3, 32, 32}, r)
		},
		"bottlenecks": func(r *rand.Rand) (nn.Module, error) {
			return models.NewResNet([4]int{1, 1, 1, 1}, true, 10, []int{3, 32, 32}, r)
		},
	}
	for _, name := range []string{"mlp", "lenet", "convnet", "vgg-small", "resnet20", "resnet18"} {
		makers[name] = func(r *rand.Rand) (nn.Module, error) { return models.New(name, 10, []int{3, 32, 32}, r) }
	}
	for name, make := range makers {
		var values [3][]float32
		for i, seed := range []uint64{7, 7, 8} {
			m, err := make(rng(seed))
			if err != nil {
				t.Fatal(err)
			}
			params, err := nn.Params(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range params {
				values[i] = append(values[i], p.Value.Data...)
			}
		}
		if !slices.Equal(values[0], values[1]) {
			t.Errorf("%s: one seed gives two models", name)
		}
		if slices.Equal(values[0], values[2]) {
			t.Errorf("%s: two seeds give one model", name)
		}
	}
}

// TestInputShapes runs every model once on the smallest and on an odd input.
func TestInputShapes(t *testing.T) {
	for name, shapes := range map[string][][]int{
		"mlp":     {{1}, {3, 5, 4}},
		"lenet":   {{1, 12, 12}, {3, 33, 30}},
		"convnet": {{1, 8, 8}, {3, 33, 30}},

		"vgg-small": {{1, 16, 16}, {3, 33, 30}},
		"resnet20":  {{1, 4, 4}, {3, 33, 30}},
		"resnet32":  {{3, 8, 8}},
		"resnet56":  {{3, 8, 8}},
		"resnet18":  {{1, 32, 32}, {3, 37, 33}},
		"resnet50":  {{3, 33, 37}},
	} {
		for _, shape := range shapes {
			m, err := models.New(name, 3, shape, rng(1))
			if err != nil {
				t.Fatal(err)
			}
			net, err := nn.NewNetwork(m, shape, nn.Config{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			size := 2
			for _, d := range shape {
				size *= d
			}
			if _, _, err := net.Train(t.Context(), 1, make([]float32, size), []int32{0, 2}); err != nil {
				t.Errorf("%s on %v: %v", name, shape, err)
			}
			if err := net.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		classes int
		shape   []int
		rng     *rand.Rand
		want    string
	}{
		{"alexnet", 10, []int{1, 28, 28}, rng(1), `unknown model "alexnet"; known are: convnet, lenet, mlp, resnet18, `},
		{"mlp", 1, []int{784}, rng(1), "1 classes"},
		{"mlp", 10, nil, rng(1), "input shape []"},
		{"mlp", 10, []int{28, 0}, rng(1), "input shape [28 0]"},
		{"mlp", 10, []int{784}, nil, "no random generator"},
		{"convnet", 10, []int{784}, rng(1), "convnet: input shape [784], want [channels, height, width] of at least 8x8"},
		{"convnet", 10, []int{1, 7, 28}, rng(1), "at least 8x8"},
		{"lenet", 10, []int{1, 11, 28}, rng(1), "at least 12x12"},
		{"vgg-small", 10, []int{3, 16, 15}, rng(1), "vgg-small: input shape [3 16 15], want [channels, height, width] of at least 16x16"},
		{"vgg16", 10, []int{3, 31, 32}, rng(1), "at least 32x32"},
		{"resnet20", 10, []int{3, 3, 4}, rng(1), "at least 4x4"},
		{"resnet50", 10, []int{32, 32}, rng(1), "at least 32x32"},
	} {
		m, err := models.New(c.name, c.classes, c.shape, c.rng)
		if err == nil || !strings.Contains(err.Error(), c.want) || m != nil {
			t.Errorf("New(%q, %d, %v) = %v, %v; want an error with %q", c.name, c.classes, c.shape, m, err, c.want)
		}
	}
}
