package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// state is all that a run has to keep.
type state struct {
	model     nn.Module
	lr        optim.Schedule
	optimizer optim.Optimizer
	ema       *optim.EMA
	step      int // steps made
}

func newState(model nn.Module) (*state, error) {
	// The rate rises for 50 steps and then falls to nothing in 1000.
	cosine, err := optim.Cosine(3e-3, 0, 1000)
	if err != nil {
		return nil, err
	}
	lr, err := optim.WarmUp(0.1, 50, cosine)
	if err != nil {
		return nil, err
	}
	adamw, err := optim.NewAdamW(optim.AdamConfig{
		LR: lr, Decay: 0.01,
		Groups: []optim.Group{
			{Match: "*.bias", NoDecay: true},
			{Match: "conv?.weight", LRScale: 0.5},
		},
	})
	if err != nil {
		return nil, err
	}
	ema, err := optim.NewEMA(optim.EMAConfig{Decay: 0.99})
	if err != nil {
		return nil, err
	}
	return &state{model: model, lr: lr, optimizer: adamw, ema: ema}, nil
}

// A checkpoint is a folder of two safetensors files: the model as PyTorch names
// it, and what the optimiser and the average remember. Both say which step they
// are of.
const (
	modelFile    = "model.safetensors"
	trainingFile = "training.safetensors"
)

// save writes the state into a folder; "" is none.
func (s *state) save(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	metadata := map[string]string{"step": strconv.Itoa(s.step)}
	if err := nn.SaveState(filepath.Join(dir, modelFile), s.model, metadata); err != nil {
		return err
	}
	var tensors []nn.NamedTensor
	for _, t := range append(s.optimizer.State().Tensors, s.ema.State().Tensors...) {
		tensors = append(tensors, nn.NamedTensor{Name: t.Name, Tensor: coded.Tensor{Shape: []int{len(t.Data)}, Data: t.Data}})
	}
	return nn.SaveTensors(filepath.Join(dir, trainingFile), tensors, metadata)
}

// load reads the state from a folder; one without a model is a new run's.
func (s *state) load(dir string) error {
	if dir == "" {
		return nil
	}
	metadata, err := nn.LoadState(filepath.Join(dir, modelFile), s.model)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	tensors, training, err := nn.LoadTensors(filepath.Join(dir, trainingFile))
	if err != nil {
		return err
	}
	if s.step, err = strconv.Atoi(metadata["step"]); err != nil || training["step"] != metadata["step"] {
		return fmt.Errorf("%s: %s is of step %q, %s of step %q", dir, modelFile, metadata["step"], trainingFile, training["step"])
	}
	// There was one update a step, of the weights and of their average.
	optimizer, ema := optim.State{Updates: s.step}, optim.State{Updates: s.step}
	for _, t := range tensors {
		owner := &optimizer
		if strings.HasSuffix(t.Name, "."+optim.Average) {
			owner = &ema
		}
		owner.Tensors = append(owner.Tensors, optim.Tensor{Name: t.Name, Data: t.Data})
	}
	if err := s.optimizer.LoadState(optimizer); err != nil {
		return err
	}
	return s.ema.LoadState(ema)
}
