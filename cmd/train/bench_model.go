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
	network, err := nn.NewNetwork(model, shape, nn.Config{Threads: b.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.01), Momentum: 0.9, Decay: 1e-4})
	if err != nil {
		return err
	}
	rng := newRand(2)
	x, labels := randomSlice(rng, batch*shape[0]*shape[1]*shape[2]), make([]int32, batch)
	for i := range labels {
		labels[i] = int32(rng.IntN(classes))
	}
	step := 0
	var params []optim.Param
	trained, err := b.rate(ctx, float64(batch), func() error {
		step++
		if _, _, err := network.Train(ctx, step, x, labels); err != nil {
			return err
		}
		params = params[:0]
		for _, p := range network.Params() {
			params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
		}
		return sgd.Step(step, params)
	})
	if err != nil {
		return err
	}
	inferred, err := b.rate(ctx, float64(batch), func() error {
		_, err := network.Predict(ctx, x)
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
