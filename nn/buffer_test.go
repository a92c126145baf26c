package nn

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/safetensors"
)

// tracker adds the mean of what passes to a buffer, and counts.
type tracker struct {
	Sum  *Buffer
	Seen *Counter
}

func newTracker() *tracker { return &tracker{Sum: NewBuffer(0, 2), Seen: &Counter{}} }

func (m *tracker) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	sum, err := g.buffer(m.Sum)
	if err != nil {
		return nil, err
	}
	if g.Training() {
		g.count(m.Seen)
	}
	return g.apply(opSpec{
		layer: g.Name(m, "tracker"), kind: "track", in: []*gorgonia.Node{x}, shape: x.Shape(), diff: []bool{true},
		run: func(_ *runContext, v [][]float32, y []float32) error {
			copy(y, v[0])
			if g.Training() {
				sum.next[0] += v[0][0]
			}
			return nil
		},
		grad: func(_ *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			return []*gorgonia.Node{dy}, nil
		},
	})
}

// trackedTwice passes what a Linear gives through one tracker two times.
type trackedTwice struct {
	FC *Linear
	T  *tracker
}

func (m trackedTwice) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return Chain(g, x, m.FC, m.T, m.T)
}

// TestBuffersFollowSteps: a step that succeeds changes the buffers, also where
// a module is used twice; neither a failed one nor an evaluation does.
func TestBuffersFollowSteps(t *testing.T) {
	m := newTracker()
	net := newNetwork(t, trackedTwice{NewLinear(newRand(1), 3, 3), m}, []int{3}, Config{Threads: 1})
	w := net.Params()[0].Value.Data
	copy(w, []float32{1, 0, 0, 0, 1, 0, 0, 0, 1})
	clear(net.Params()[1].Value.Data)
	x, labels := []float32{2, 5, 7}, []int32{0}
	want := func(what string, sum float32, seen int64) {
		t.Helper()
		if m.Sum.Value.Data[0] != sum || m.Seen.Value != seen {
			t.Errorf("after %s: sum %v, seen %d; want %v, %d", what, m.Sum.Value.Data[0], m.Seen.Value, sum, seen)
		}
	}
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	want("a step", 4, 2)
	if _, _, err := net.Accumulate(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	want("a second part", 8, 4)
	if _, _, err := net.Train(t.Context(), 2, []float32{float32(math.NaN()), 0, 0}, labels); err == nil {
		t.Fatal("no error for NaN")
	}
	want("a loss that is not a number", 8, 4)
	if _, _, err := net.Train(t.Context(), 2, x, []int32{3}); err == nil {
		t.Fatal("no error for a label out of range")
	}
	want("a failed step", 8, 4)
	if _, _, err := net.Evaluate(t.Context(), x, labels); err != nil {
		t.Fatal(err)
	}
	want("an evaluation", 8, 4)
	m.Sum.Value.Data[0] = 1 // as LoadState does
	if _, _, err := net.Train(t.Context(), 3, x, labels); err != nil {
		t.Fatal(err)
	}
	want("a value from outside", 5, 6)
	m.Sum.Value.Data[1] = float32(math.Inf(1))
	w[0] = float32(math.NaN())
	_, _, err := net.Train(t.Context(), 4, x, labels)
	if err == nil || err.(*NonFiniteError).Where != "parameter fc.weight" {
		t.Errorf("error %v, want the parameter", err)
	}
}

// TestBuffersAreState: buffers are found by walking, saved beside parameters,
// and loaded; counters are int64 without dimensions, and may be missing.
func TestBuffersAreState(t *testing.T) {
	type model struct {
		ReLU
		FC *Linear
		T  *tracker
	}
	m := &model{FC: NewLinear(newRand(1), 2, 2), T: newTracker()}
	m.T.Sum.Value.Data[1], m.T.Seen.Value = 0.5, 1<<40+1
	state, err := State(m)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range state {
		names = append(names, v.Name)
	}
	if want := []string{"fc.weight", "fc.bias", "t.sum", "t.seen"}; !slices.Equal(names, want) {
		t.Errorf("state %q, want %q", names, want)
	}
	if params, err := Params(m); err != nil || len(params) != 2 {
		t.Errorf("%d parameters, want 2; error %v", len(params), err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := SaveState(path, m, nil); err != nil {
		t.Fatal(err)
	}
	err = open(path, func(f *safetensors.File) error {
		first := f.Entries[0]
		if first.Name != "t.seen" || first.DType != "I64" || len(first.Shape) != 0 {
			t.Errorf("first entry %+v, want t.seen, an int64 without dimensions", first)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other := &model{FC: NewLinear(newRand(2), 2, 2), T: newTracker()}
	if _, err := LoadState(path, other); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m.T, other.T); d != "" {
		t.Errorf("loaded buffers (-want +got):\n%s", d)
	}
	if d := cmp.Diff(m.FC.Weight, other.FC.Weight); d != "" {
		t.Errorf("loaded weight (-want +got):\n%s", d)
	}
	without := []NamedTensor{{"fc.weight", m.FC.Weight.Value}, {"fc.bias", m.FC.Bias.Value}, {"t.sum", m.T.Sum.Value}}
	if err := SaveTensors(path, without, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadState(path, other); err != nil || other.T.Seen.Value != 0 {
		t.Errorf("file without counter: counter %d, want 0; error %v", other.T.Seen.Value, err)
	}
	if err := SaveTensors(path, append(without, NamedTensor{"t.seen", coded.NewTensor(1)}), nil); err != nil {
		t.Fatal(err)
	}
	_, err = LoadState(path, other)
	var e *StateError
	if !errors.As(err, &e) || !slices.Equal(e.Misshapen, []string{"t.seen: F32 [1], want I64 []"}) {
		t.Errorf("counter of another type: error %v", err)
	}
}

// TestLoadExcept: what is excepted is neither loaded nor missed nor compared.
func TestLoadExcept(t *testing.T) {
	type model struct {
		ReLU
		Body, Head *Linear
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	from := &model{Body: NewLinear(newRand(1), 2, 2), Head: NewLinear(newRand(1), 2, 7)}
	if err := SaveState(path, from, nil); err != nil {
		t.Fatal(err)
	}
	to := &model{Body: NewLinear(newRand(2), 2, 2), Head: NewLinear(newRand(2), 2, 3)}
	if _, err := LoadState(path, to); err == nil {
		t.Error("a head of another shape is loaded")
	}
	head := slices.Clone(to.Head.Weight.Value.Data)
	if _, err := LoadState(path, to, Except("head.", "unused.")); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(to.Body.Weight.Value.Data, from.Body.Weight.Value.Data) || !slices.Equal(to.Head.Weight.Value.Data, head) {
		t.Error("not the body alone was loaded")
	}
	to.Body.Weight.Value.Data[0]++
	heads := func(name string) bool { return name[0] == 'h' }
	biases := func(name string) bool { return strings.HasSuffix(name, ".bias") }
	if _, err := LoadState(path, to, ExceptFunc(heads), ExceptFunc(biases)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(to.Body.Weight.Value.Data, from.Body.Weight.Value.Data) || !slices.Equal(to.Head.Weight.Value.Data, head) {
		t.Error("by functions: not the body alone was loaded")
	}
}

func TestBuffersRefuse(t *testing.T) {
	shared := NewBuffer(0, 1)
	for want, m := range map[string]Module{
		"sum is nil":                        &tracker{Seen: &Counter{}},
		"seen is nil":                       &tracker{Sum: NewBuffer(0, 1)},
		"1.sum is the same buffer as 0.sum": Sequential{&tracker{shared, &Counter{}}, &tracker{shared, &Counter{}}},
		"buffer sum: 1 numbers":             &tracker{&Buffer{Value: tensorOf([]int{2}, 1)}, &Counter{}},
	} {
		net, err := NewNetwork(m, []int{3}, Config{Threads: 1})
		if err == nil {
			t.Errorf("no error, want %q", want)
			if err := net.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if !contains(err, want) {
			t.Errorf("error %q, want it to say %q", err, want)
		}
	}
	g := newGraph(nil, map[any]string{}, 1, true, 0)
	if _, err := g.buffer(shared); !contains(err, "must be exported") {
		t.Errorf("hidden buffer: %v", err)
	}
	if _, err := g.buffer(nil); !contains(err, "nil buffer") {
		t.Errorf("nil buffer: %v", err)
	}
}
