//go:build unix

package train_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coda-ml/coda/internal/fulldisk"
	"github.com/coda-ml/coda/nn/train"
)

// When the disk is full in the middle of the first or of the second file of a
// checkpoint, nothing of it remains and the old one is there, to be loaded.
func TestFullDisk(t *testing.T) {
	s := newSetup(t, func(c *train.Config) { c.Steps = 3 })
	tr := s.trainer(t)
	dir := t.TempDir()
	old, err := tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)
	_, err = tr.Run(t.Context())
	check(t, err)
	model, err := os.Stat(filepath.Join(old, "model.safetensors"))
	check(t, err)
	// The optimiser's file has as many numbers and a longer header.
	for _, limit := range []int{0, 1000, int(model.Size()) - 1, int(model.Size())} {
		release := fulldisk.Limit(t, limit)
		_, err := tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
		release()
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("at most %d bytes a file: error %v, want %v", limit, err, syscall.EFBIG)
		}
		wantNames(t, dir, "step-00000000")
	}
	state, err := train.LoadNewest(dir, s.model, s.config.Optimizer)
	check(t, err)
	if state.Step != 0 {
		t.Errorf("the checkpoint is of step %d, want 0", state.Step)
	}
	_, err = tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)
	wantNames(t, dir, "step-00000000", "step-00000003")
}
