package main

import (
	"context"
	"errors"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// modelRow is the speed of training or inference steps of a model.
type modelRow struct {
	System     string  `json:"system"`
	Bench      string  `json:"bench"` // train or infer
	Model      string  `json:"model"`
	Batch      int     `json:"batch"`
	Threads    int     `json:"threads"`
	ImagesPerS float64 `json:"images_per_s"`
}

// benchModel returns the benchmark of a model on made-up images: whole steps
// (forward, loss, backward, and SGD with momentum and weight decay), then inference.
func benchModel(label, name string, batch int, shape []int) benchmark {
	return func(ctx context.Context, b *benchCmd, out rows) error {
		return b.model(ctx, out, label, name, batch, shape)
	}
}

func (b *benchCmd) model(ctx context.Context, out rows, label, name string, batch int, shape []int) (err error) {
	const classes = 10
	model, err := models.New(name, classes, shape, newRand(1))
	if err != nil {
		return err
	}
	m, err := newModelSteps(model, shape, classes, batch, b.Threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.network.Close()) }()
	trained, err := b.rate(ctx, float64(batch), func() error { return m.train(ctx) })
	if err != nil {
		return err
	}
	inferred, err := b.rate(ctx, float64(batch), func() error {
		_, err := m.network.Predict(ctx, m.x)
		return err
	})
	if err != nil {
		return err
	}
	row := modelRow{System: "coda", Bench: "train", Model: label, Batch: batch, Threads: b.Threads, ImagesPerS: trained}
	if err := out(row); err != nil {
		return err
	}
	row.Bench, row.ImagesPerS = "infer", inferred
	return out(row)
}

// modelSteps makes local steps of a model on one batch of made-up images: forward,
// loss, backward, and SGD with momentum and weight decay. Its network must be closed.
type modelSteps struct {
	network *nn.Network
	sgd     optim.Optimizer
	x       []float32
	labels  []int32
	params  []optim.Param
	step    int
}

func newModelSteps(model nn.Module, shape []int, classes, batch, threads int) (*modelSteps, error) {
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.01), Momentum: 0.9, Decay: 1e-4})
	if err != nil {
		return nil, err
	}
	rng := newRand(2)
	m := &modelSteps{sgd: sgd, x: randomSlice(rng, batch*sizeOf(shape)), labels: make([]int32, batch)}
	for i := range m.labels {
		m.labels[i] = int32(rng.IntN(classes))
	}
	m.network, err = nn.NewNetwork(model, shape, nn.Config{Threads: threads})
	return m, err
}

// train makes a step.
func (m *modelSteps) train(ctx context.Context) error {
	m.step++
	if _, _, err := m.network.Train(ctx, m.step, m.x, m.labels); err != nil {
		return err
	}
	m.params = m.params[:0]
	for _, p := range m.network.Params() {
		m.params = append(m.params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
	}
	return m.sgd.Step(m.step, m.params)
}
