package train_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

func newEMA(t *testing.T, decay float64) *optim.EMA {
	t.Helper()
	e, err := optim.NewEMA(optim.EMAConfig{Decay: decay, WarmUp: true})
	check(t, err)
	return e
}

// A run with averages that is interrupted, written and resumed by another
// process gives the bits of an undisturbed one: averages, weights, buffers.
func TestResumeWithAverages(t *testing.T) {
	files := func(dir string) map[string][]byte {
		found := map[string][]byte{}
		for _, name := range []string{"model.safetensors", "training.safetensors", "optimizer.safetensors", "state.json"} {
			text, err := os.ReadFile(filepath.Join(dir, "step-00000010", name))
			check(t, err)
			found[name] = text
		}
		return found
	}
	write := func(tr *train.Trainer) string {
		dir := t.TempDir()
		_, err := tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
		check(t, err)
		return dir
	}
	whole, _ := newNormSetup(t)
	whole.config.EMA = newEMA(t, 0.8)
	tr := whole.trainer(t)
	_, err := tr.Run(t.Context())
	check(t, err)
	want := files(write(tr))

	first, _ := newNormSetup(t)
	first.config.EMA = newEMA(t, 0.8)
	ctx, cancel := context.WithCancel(t.Context())
	first.config.Hooks = append(first.config.Hooks, train.Hooks{OnStep: func(_ context.Context, i train.StepInfo) error {
		if i.Step == 7 {
			cancel()
		}
		return nil
	}})
	tr = first.trainer(t)
	_, err = tr.Run(ctx)
	check(t, err)
	dir := write(tr)

	second, model := newNormSetup(t)
	state, err := train.LoadNewest(dir, model, second.config.Optimizer)
	check(t, err)
	if state.Averaged != 7 || state.Averages == nil {
		t.Fatalf("the checkpoint has averages of %d steps, want 7", state.Averaged)
	}
	second.config.Start, second.config.EMA = state.Position, newEMA(t, 0.8)
	check(t, second.config.EMA.LoadState(*state.Averages))
	tr = second.trainer(t)
	_, err = tr.Run(t.Context())
	check(t, err)
	for name, got := range files(write(tr)) {
		if !bytes.Equal(got, want[name]) {
			t.Errorf("%s: other bytes than those of an undisturbed run", name)
		}
	}
	if a, b := whole.epochs[1], second.epochs[0]; a.TestLoss != b.TestLoss || a.TestAccuracy != b.TestAccuracy {
		t.Errorf("evaluation %+v, undisturbed %+v", b, a)
	}
}

// What is evaluated and kept as the model are averages of the parameters and
// the buffers of the moment; training goes on from the weights.
func TestAveragesAreTheModel(t *testing.T) {
	s, model := newNormSetup(t)
	s.config.EMA = newEMA(t, 0.7)
	params, err := nn.Params(model)
	check(t, err)
	frozen := params[1].Param // the scale of the batch norm
	frozen.Frozen = true
	want := make([][]float64, len(params))
	s.config.Hooks = append(s.config.Hooks, train.Hooks{OnStep: func(_ context.Context, i train.StepInfo) error {
		d := min(0.7, float64(1+i.Step)/float64(10+i.Step))
		for j, p := range params {
			if i.Step == 1 {
				want[j] = make([]float64, p.Size())
				d = 0
			}
			for k, v := range p.Value.Data {
				want[j][k] = d*want[j][k] + (1-d)*float64(v)
			}
		}
		return nil
	}})
	tr := s.trainer(t)
	result, err := tr.Run(t.Context())
	check(t, err)
	path, err := tr.WriteCheckpoint(t.Context(), t.TempDir(), train.Origin{})
	check(t, err)

	other, kept := newNormSetup(t)
	_, err = nn.LoadState(filepath.Join(path, "model.safetensors"), kept)
	check(t, err)
	loss, accuracy, err := train.Evaluate(t.Context(), other.config.Network, other.config.Test, 64)
	check(t, err)
	if loss != result.TestLoss || accuracy != result.TestAccuracy {
		t.Errorf("the kept model has loss %v, accuracy %v; evaluated were %v, %v", loss, accuracy, result.TestLoss, result.TestAccuracy)
	}
	now, err := nn.State(model)
	check(t, err)
	averaged, err := nn.State(kept)
	check(t, err)
	j := 0
	for i, v := range averaged {
		switch {
		case v.Param != nil:
			for k, a := range v.Param.Value.Data {
				if d := math.Abs(float64(a) - want[j][k]); !(d < 1e-5) {
					t.Errorf("%s[%d]: average %v, want %v", v.Name, k, a, want[j][k])
				}
			}
			j++
		case v.Buffer != nil:
			same(t, v.Name, v.Buffer.Value.Data, now[i].Buffer.Value.Data)
		}
	}
	_, err = nn.LoadState(filepath.Join(path, "training.safetensors"), kept)
	check(t, err)
	for i, v := range averaged {
		if v.Param != nil {
			same(t, v.Name, v.Param.Value.Data, now[i].Param.Value.Data)
		}
	}
}

// Averages may begin in the middle of a run, and end there.
func TestAveragesBeginAndEnd(t *testing.T) {
	dir := t.TempDir()
	leg := func(ema *optim.EMA, to int) train.Checkpoint {
		s, model := newNormSetup(t)
		s.config.EMA, s.config.Steps = ema, to
		if to > 2 {
			c, err := train.LoadNewest(dir, model, s.config.Optimizer)
			check(t, err)
			s.config.Start = c.Position
		}
		tr := s.trainer(t)
		_, err := tr.Run(t.Context())
		check(t, err)
		_, err = tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
		check(t, err)
		c, err := train.LoadNewest(dir, model, s.config.Optimizer)
		check(t, err)
		return c
	}
	for i, want := range []int{0, 3, 0} {
		var ema *optim.EMA
		if want > 0 {
			ema = newEMA(t, 0.9)
		}
		if c := leg(ema, []int{2, 5, 6}[i]); c.Averaged != want || (c.Averages != nil) != (want > 0) {
			t.Errorf("leg %d: averages of %d steps, want %d", i+1, c.Averaged, want)
		}
	}
}

// A checkpoint that lacks the weights behind its averages is broken.
func TestAveragesWithoutWeights(t *testing.T) {
	s, model := newNormSetup(t)
	s.config.EMA, s.config.Steps = newEMA(t, 0.9), 2
	tr := s.trainer(t)
	_, err := tr.Run(t.Context())
	check(t, err)
	dir := t.TempDir()
	path, err := tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)
	missing := filepath.Join(path, "training.safetensors")
	check(t, os.Remove(missing))
	if _, err := train.LoadNewest(dir, model, s.config.Optimizer); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one with %s", err, missing)
	}
}

func TestAveragesOfPlacedLayersAreRefused(t *testing.T) {
	s := newPlacedSetup(t, true)
	s.config.EMA = newEMA(t, 0.9)
	if _, err := train.New(s.config); err == nil || !strings.Contains(err.Error(), "weights of fc1 are on workers") {
		t.Errorf("error %v, want one that names fc1", err)
	}
}
