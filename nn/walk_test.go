package nn

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"pgregory.net/rapid"
)

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"Weight": "weight", "Conv1": "conv1", "FC1": "fc1", "BN1": "bn1", "RunningMean": "running_mean",
		"NumBatchesTracked": "num_batches_tracked", "ConvBN": "conv_bn", "BNConv": "bn_conv", "InProjWeight": "in_proj_weight",
		"Layer1": "layer1", "L2Norm": "l2_norm", "X": "x", "Conv_2": "conv_2", "HTTPServer2Go": "http_server2_go", "Ärger": "ärger",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestSnakeIsStable: a name in snake case has no capitals and stays as it is.
func TestSnakeIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z][A-Za-z0-9_]{0,12}`).Draw(t, "name")
		s := snake(name)
		if s != strings.ToLower(s) || snake(s) != s {
			t.Errorf("snake(%q) = %q, and of that %q", name, s, snake(s))
		}
		if strings.ReplaceAll(s, "_", "") != strings.ToLower(strings.ReplaceAll(name, "_", "")) {
			t.Errorf("snake(%q) = %q loses letters", name, s)
		}
	})
}

// still is a module that is only there to be walked.
type still struct{}

func (still) Forward(_ *Graph, x *gorgonia.Node) (*gorgonia.Node, error) { return x, nil }

type residual struct {
	still
	Conv1, Conv2 *Conv2d
	Shortcut     Module `nn:",optional"`
}

type head struct{ FC1 *Linear }

type zoo struct {
	still
	Features Sequential
	Blocks   [2]*residual
	ByName   map[string]*Linear
	head
	Head
	*Tail
	Renamed *Param `nn:"classifier.weight"`
	Skipped *Param `nn:"-"`
	Plain   int
	Text    *string
	Value   Linear
}

type Head struct{ FC2 *Linear }

type Tail struct{ FC3 *Linear }

func newZoo(rng *rand.Rand) *zoo {
	fc := func() *Linear { return NewLinear(rng, 2, 2, NoBias()) }
	conv := func() *Conv2d { return NewConv2d(rng, 1, 1, 1, Conv2dConfig{}, NoBias()) }
	return &zoo{
		Features: Sequential{NewLinear(rng, 2, 2), ReLU{}, conv()},
		Blocks:   [2]*residual{{Conv1: conv(), Conv2: conv(), Shortcut: Sequential{conv()}}, {Conv1: conv(), Conv2: conv()}},
		ByName:   map[string]*Linear{"b": fc(), "a": fc()},
		head:     head{fc()},
		Head:     Head{fc()},
		Tail:     &Tail{fc()},
		Renamed:  NewParam(1),
		Value:    *fc(),
	}
}

func TestParamNames(t *testing.T) {
	params, err := Params(newZoo(newRand(1)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	want := []string{
		"features.0.weight", "features.0.bias", "features.2.weight",
		"blocks.0.conv1.weight", "blocks.0.conv2.weight", "blocks.0.shortcut.0.weight", "blocks.1.conv1.weight", "blocks.1.conv2.weight",
		"by_name.a.weight", "by_name.b.weight", "fc1.weight", "fc2.weight", "fc3.weight", "classifier.weight", "value.weight",
	}
	if !slices.Equal(names, want) {
		t.Errorf("names %q\nwant  %q", names, want)
	}
}

func TestModuleNames(t *testing.T) {
	z := newZoo(newRand(1))
	w, err := walk(z)
	if err != nil {
		t.Fatal(err)
	}
	g := newGraph(nil, w.names, 1, false, 0)
	for m, want := range map[Module]string{
		z.Blocks[1].Conv2:           "blocks.1.conv2",
		z.ByName["a"]:               "by_name.a",
		NewLinear(newRand(1), 1, 1): "fallback",
		ReLU{}:                      "fallback",
		&ReLU{}:                     "fallback",
		z:                           "fallback", // the model itself has no name
	} {
		if got := g.Name(m, "fallback"); got != want {
			t.Errorf("name of %T is %q, want %q", m, got, want)
		}
	}
}

// TestModules: the model first, then every module before those in it; values
// and modules without fields have no identity and are left out.
func TestModules(t *testing.T) {
	z := newZoo(newRand(1))
	list, err := Modules(z)
	if err != nil {
		t.Fatal(err)
	}
	want := []NamedModule{
		{"", z}, {"features.0", z.Features[0]}, {"features.2", z.Features[2]},
		{"blocks.0", z.Blocks[0]}, {"blocks.0.conv1", z.Blocks[0].Conv1}, {"blocks.0.conv2", z.Blocks[0].Conv2},
		{"blocks.0.shortcut.0", z.Blocks[0].Shortcut.(Sequential)[0]},
		{"blocks.1", z.Blocks[1]}, {"blocks.1.conv1", z.Blocks[1].Conv1}, {"blocks.1.conv2", z.Blocks[1].Conv2},
		{"by_name.a", z.ByName["a"]}, {"by_name.b", z.ByName["b"]}, {"fc1", z.FC1}, {"fc2", z.FC2}, {"fc3", z.FC3},
	}
	if len(list) != len(want) {
		t.Errorf("%d modules, want %d", len(list), len(want))
	}
	for i := range min(len(list), len(want)) {
		if list[i] != want[i] {
			t.Errorf("module %d is %q, a %T; want %q, a %T", i, list[i].Name, list[i].Module, want[i].Name, want[i].Module)
		}
	}
	if _, err := Modules(&residual{}); err == nil || !strings.Contains(err.Error(), "conv1 is nil") {
		t.Errorf("a model without its layers: error %v", err)
	}
}

type same struct {
	still
	FC1 *Linear
	Fc1 *Linear
	A   *Linear
	B   *Linear
	C   *Linear
	D   Module
	W   *Param
}

type ring struct {
	still
	Next *ring `nn:",optional"`
}

// TestParamsRefuses: every problem is listed at once.
func TestParamsRefuses(t *testing.T) {
	fc := func() *Linear { return NewLinear(newRand(1), 1, 1, NoBias()) }
	shared := fc()
	_, err := Params(&same{FC1: fc(), Fc1: fc(), A: shared, B: shared, C: &Linear{}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"nn.same", "two values have the name fc1.weight", "b.weight is the same parameter as a.weight",
		"c.weight is nil", "d is nil", "w is nil",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want it to say %q", err, want)
		}
	}
	r := &ring{}
	r.Next = &ring{Next: r}
	if _, err := Params(r); err == nil || !strings.Contains(err.Error(), "next.next holds itself") {
		t.Errorf("a ring: error %v", err)
	}
	if _, err := Params((*same)(nil)); err == nil || !strings.Contains(err.Error(), "the model itself is nil") {
		t.Errorf("a nil pointer: error %v", err)
	}
	if p, err := Params(ReLU{}); err != nil || len(p) != 0 {
		t.Errorf("a ReLU has parameters %v, error %v", p, err)
	}
}
