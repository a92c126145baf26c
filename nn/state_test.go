package nn

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coda-ml/coda/coded"
)

func TestStateRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 1})
	meta := map[string]string{"step": "12", "model": "small \"net\"\n"}
	if err := SaveState(path, model, meta); err != nil {
		t.Fatal(err)
	}
	x, labels := batchFor(shape, 3, 1)
	want, err := net.Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	// Train away from what was saved, then go back: the graphs see the change.
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	descend(net, 1)
	if got, err := net.Predict(t.Context(), x); err != nil || slices.Equal(got, want) {
		t.Fatalf("a step has changed nothing; error %v", err)
	}
	gotMeta, err := LoadState(path, model)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(meta, gotMeta); d != "" {
		t.Errorf("text (-want +got):\n%s", d)
	}
	if got, err := net.Predict(t.Context(), x); err != nil || !slices.Equal(got, want) {
		t.Errorf("after loading: %v, want %v; error %v", got, want, err)
	}
	tensors, _, err := LoadTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range net.Params() {
		if d := cmp.Diff(NamedTensor{p.Name, p.Value}, tensors[i]); d != "" {
			t.Errorf("tensor %d (-want +got):\n%s", i, d)
		}
	}
}

// TestLoadStateIsStrict: every difference is listed, and nothing is changed.
func TestLoadStateIsStrict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	one := coded.Tensor{Shape: []int{2}, Data: []float32{1, 2}}
	if err := SaveTensors(path, []NamedTensor{{"a", one}, {"b", one}, {"c", one}, {"d", one}}, nil); err != nil {
		t.Fatal(err)
	}
	model := &struct {
		ReLU
		A, B, X *Param
		Y       *Buffer
	}{A: NewParam(2), B: NewParam(1, 2), X: NewParam(2), Y: NewBuffer(0, 1)}
	_, err := LoadState(path, model)
	var e *StateError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want a StateError", err)
	}
	want := &StateError{Path: path, Missing: []string{"x: want F32 [2]", "y: want F32 [1]"}, Unexpected: []string{"c: F32 [2]", "d: F32 [2]"}, Misshapen: []string{"b: F32 [2], want F32 [1 2]"}}
	if d := cmp.Diff(want, e); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, say := range []string{path, `missing: ["x: want F32 [2]" "y: want F32 [1]"]`, `unexpected: ["c: F32 [2]" "d: F32 [2]"]`, `misshapen: ["b: F32 [2], want F32 [1 2]"]`} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("error %q, want it to say %q", err, say)
		}
	}
	if model.A.Value.Data[0] != 0 {
		t.Error("a failed load has changed a parameter")
	}
}

func TestSaveAndLoadFail(t *testing.T) {
	dir := t.TempDir()
	torn := []NamedTensor{{"w", tensorOf([]int{3}, 2)}}
	path := filepath.Join(dir, "model.safetensors")
	if err := SaveTensors(path, torn, nil); err == nil || !strings.Contains(err.Error(), `"w": 2 numbers for shape [3]`) {
		t.Errorf("torn tensor: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a failed save leaves %v; error %v", entries, err)
	}
	if _, err := LoadState(path, ReLU{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("not tensors at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadTensors(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("not a file of tensors: %v", err)
	}
}
