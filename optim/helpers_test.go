package optim_test

import (
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/optim"
)

// variants are settings under which every buffer and every branch is used.
var variants = map[string]struct {
	name   string
	config optim.Config
}{
	"sgd":              {"sgd", optim.Config{}},
	"sgd momentum":     {"sgd", optim.Config{Momentum: 0.9, Decay: 0.01}},
	"sgd nesterov":     {"sgd", optim.Config{Momentum: 0.9, Decay: 0.01, Nesterov: true}},
	"adam":             {"adam", optim.Config{Decay: 0.01}},
	"adamw":            {"adamw", optim.Config{Decay: 0.01}},
	"amsgrad":          {"amsgrad", optim.Config{Decay: 0.01}},
	"rmsprop":          {"rmsprop", optim.Config{Decay: 0.01}},
	"rmsprop momentum": {"rmsprop", optim.Config{Momentum: 0.5, Decay: 0.01}},
	"adagrad":          {"adagrad", optim.Config{Decay: 0.01}},
	"lamb":             {"lamb", optim.Config{Decay: 0.01}},
	"lamb clipped":     {"lamb", optim.Config{Decay: 0.01, ClipNorm: 0.5}},
	"sgd clipped":      {"sgd", optim.Config{Momentum: 0.9, ClipNorm: 0.5}},
}

// variant makes an optimiser of variants with a learning rate.
func variant(t testing.TB, name string, lr optim.Schedule, pool *kernel.Pool) optim.Optimizer {
	t.Helper()
	v := variants[name]
	v.config.LR, v.config.Pool = lr, pool
	o, err := optim.New(v.name, v.config)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// forEach runs a test for each variant.
func forEach(t *testing.T, test func(t *testing.T, make func(lr optim.Schedule) optim.Optimizer)) {
	for name := range variants {
		t.Run(name, func(t *testing.T) {
			test(t, func(lr optim.Schedule) optim.Optimizer { return variant(t, name, lr, nil) })
		})
	}
}
