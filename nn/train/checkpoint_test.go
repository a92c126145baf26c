package train_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/nn/train"
)

// Cancelling in the middle of a step ends the run after it; a checkpoint
// written then and loaded into a new run gives the bits of an undisturbed one,
// also with one layer on a cluster.
func TestInterruptAndResume(t *testing.T) {
	for _, placed := range []bool{false, true} {
		whole := newPlacedSetup(t, placed)
		_, err := whole.trainer(t).Run(t.Context())
		check(t, err)

		first := newPlacedSetup(t, placed)
		ctx, cancel := context.WithCancel(t.Context())
		first.config.Hooks = append(first.config.Hooks, train.Hooks{BeforeStep: func(_ context.Context, step int) error {
			if step == 14 {
				cancel()
			}
			return nil
		}})
		tr := first.trainer(t)
		result, err := tr.Run(ctx)
		check(t, err)
		if !result.Interrupted || result.Steps != 14 {
			t.Fatalf("interrupted %v after %d steps, want true after 14", result.Interrupted, result.Steps)
		}
		dir := t.TempDir()
		_, err = tr.WriteCheckpoint(t.Context(), dir, train.Origin{Seed: 5, BatchSize: 32})
		check(t, err)

		second := newSetup(t, nil)
		state, err := train.LoadNewest(dir, second.model, second.config.Optimizer)
		check(t, err)
		if state.Seed != 5 || state.BatchSize != 32 || state.Step != 14 || state.Batch != 4 {
			t.Errorf("checkpoint says %+v", state)
		}
		if placed {
			second.place(t, state.Momenta)
		}
		second.config.Start = state.Position
		_, err = second.trainer(t).Run(t.Context())
		check(t, err)
		compare(t, placed, whole.losses, append(slices.Clone(first.losses), second.losses...))
	}
}

// onFetch calls a function when weights are fetched, at the begin of an evaluation.
type onFetch struct {
	*shard.Local
	call func()
}

func (e onFetch) Fetch(ctx context.Context, layer string, tensors ...int) ([]coded.ShardState, error) {
	e.call()
	return e.Local.Fetch(context.WithoutCancel(ctx), layer, tensors...)
}

// An evaluation ends at once when the run is cancelled; the run that goes on from there
// makes it.
func TestInterruptedEvaluation(t *testing.T) {
	whole := newPlacedSetup(t, true)
	want, err := whole.trainer(t).Run(t.Context())
	check(t, err)

	first := newSetup(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	local := shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(9)})
	first.placeOn(t, onFetch{local, func() { cancel(errors.New("enough")) }}, nil)
	tr := first.trainer(t)
	result, err := tr.Run(ctx)
	check(t, err)
	if !result.Interrupted || result.Steps != 10 || len(first.epochs) > 0 {
		t.Fatalf("interrupted %v after %d steps and %d evaluations, want true after 10 and none", result.Interrupted, result.Steps, len(first.epochs))
	}
	dir := t.TempDir()
	_, err = tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)

	second := newSetup(t, nil)
	state, err := train.LoadNewest(dir, second.model, second.config.Optimizer)
	check(t, err)
	second.place(t, state.Momenta)
	second.config.Start = state.Position
	got, err := second.trainer(t).Run(t.Context())
	check(t, err)
	if len(second.epochs) != 2 || second.epochs[0].Step != 10 || got.Steps != want.Steps {
		t.Errorf("evaluations %+v and %d steps, want two, the first at step 10, and %d steps", second.epochs, got.Steps, want.Steps)
	}
	compare(t, true, whole.losses, append(slices.Clone(first.losses), second.losses...))
}

// compare wants the same bits; where a layer is placed its weights went through
// a decoding and an encoding, which round.
func compare(t *testing.T, placed bool, want, got []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d losses, want %d", len(got), len(want))
	}
	for i := range want {
		d := got[i]/want[i] - 1
		if !placed && d != 0 || d > 1e-3 || d < -1e-3 {
			t.Errorf("placed %v, step %d: loss %v, undisturbed %v", placed, i+1, got[i], want[i])
		}
	}
}

func TestCheckpointsAreWholeAndFew(t *testing.T) {
	dir := t.TempDir()
	s := newSetup(t, nil)
	var tr *train.Trainer
	s.config.Hooks = append(s.config.Hooks, train.Hooks{OnStep: func(ctx context.Context, i train.StepInfo) error {
		_, err := tr.WriteCheckpoint(ctx, dir, train.Origin{})
		return err
	}})
	tr = s.trainer(t)
	_, err := tr.Run(t.Context())
	check(t, err)
	wantNames(t, dir, "step-00000018", "step-00000019", "step-00000020")
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("the folder holds %v, want %v", names, want)
	}
}

// What a writer that died has left behind is removed; what is not a checkpoint
// is neither loaded nor removed.
func TestForeignFolders(t *testing.T) {
	dir := t.TempDir()
	others := []string{"step-1", "step-9", "step-final", "steps"}
	for _, name := range append([]string{".unfinished-step-00000007"}, others...) {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	s := newSetup(t, func(c *train.Config) { c.Start.Step = 1e9 })
	_, err := s.trainer(t).WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)
	wantNames(t, dir, "step-1", "step-1000000000", "step-9", "step-final", "steps")
	c, err := train.LoadNewest(dir, s.model, s.config.Optimizer)
	check(t, err)
	if c.Step != 1e9 {
		t.Errorf("the newest checkpoint is of step %d", c.Step)
	}
}

func TestLoadNewestErrors(t *testing.T) {
	s := newSetup(t, nil)
	dir := t.TempDir()
	if _, err := train.LoadNewest(dir, s.model, s.config.Optimizer); err == nil || !strings.Contains(err.Error(), "no checkpoint") {
		t.Errorf("empty folder: error %v", err)
	}
	path, err := s.trainer(t).WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)
	for name, text := range map[string]string{"state.json": `{"version":99}`, "model.safetensors": "abc"} {
		file := filepath.Join(path, name)
		old, err := os.ReadFile(file)
		check(t, err)
		check(t, os.WriteFile(file, []byte(text), 0o644))
		if _, err := train.LoadNewest(dir, s.model, s.config.Optimizer); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: error %v", name, err)
		}
		check(t, os.WriteFile(file, old, 0o644))
	}
	_, err = train.LoadNewest(dir, s.model, s.config.Optimizer)
	check(t, err)
}

// A broken checkpoint is passed over, told, and replaced when the run comes to
// its step again; one of another model is not passed over.
func TestLoadNewestGoesBack(t *testing.T) {
	dir := t.TempDir()
	s := newSetup(t, nil)
	var tr *train.Trainer
	s.config.Hooks = append(s.config.Hooks, train.Hooks{OnEpoch: func(ctx context.Context, e train.EpochInfo) error {
		_, err := tr.WriteCheckpoint(ctx, dir, train.Origin{})
		return err
	}})
	tr = s.trainer(t)
	_, err := tr.Run(t.Context())
	check(t, err)
	newest := filepath.Join(dir, "step-00000020", "model.safetensors")
	whole, err := os.ReadFile(newest)
	check(t, err)
	check(t, os.Truncate(newest, 1000))

	s.config.Start = train.Position{}
	c, err := train.LoadNewest(dir, s.model, s.config.Optimizer)
	check(t, err)
	if c.Step != 10 || c.Dir != filepath.Join(dir, "step-00000010") {
		t.Errorf("loaded step %d from %s, want 10", c.Step, c.Dir)
	}
	if len(c.Broken) != 1 || !strings.Contains(c.Broken[0].Error(), newest) {
		t.Errorf("passed over %v, want %s", c.Broken, newest)
	}
	s.config.Start = c.Position
	tr = s.trainer(t)
	_, err = tr.Run(t.Context())
	check(t, err)
	again, err := os.ReadFile(newest)
	check(t, err)
	if !bytes.Equal(whole, again) {
		t.Error("the broken checkpoint was not replaced by the same bits")
	}

	other, err := models.NewMLP(10, []int{1, 4, 4}, rand.New(rand.NewPCG(1, 2)))
	check(t, err)
	var misfit *nn.StateError
	if _, err := train.LoadNewest(dir, other, s.config.Optimizer); !errors.As(err, &misfit) || misfit.Path != newest {
		t.Errorf("another model: error %v, want one of %s", err, newest)
	}
}
