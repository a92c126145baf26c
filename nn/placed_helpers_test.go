package nn_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// mlp is a chain of Linear layers with ReLUs in between, "0", "2", "4" and so
// on; layer i is placed where placements has an entry.
func mlp(seed uint64, sizes []int, placements map[int]nn.Placement) nn.Sequential {
	rng := rand.New(rand.NewPCG(seed, 0))
	var m nn.Sequential
	for i := range sizes[1:] {
		if i > 0 {
			m = append(m, nn.ReLU{})
		}
		l := nn.NewLinear(rng, sizes[i], sizes[i+1])
		if p, ok := placements[i]; ok {
			l.Place(p)
		}
		m = append(m, l)
	}
	return m
}

// name is that of layer i of an mlp.
func name(i int) string { return strconv.Itoa(2 * i) }

// bench is a model that runs.
type bench struct {
	*nn.Network
	model nn.Sequential
}

func newBench(t testing.TB, model nn.Sequential, in ...int) *bench {
	t.Helper()
	n, err := nn.NewNetwork(model, in, nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{n, model}
}

// newPlaced makes a model whose listed layers are placed on an executor.
func newPlaced(t testing.TB, seed uint64, sizes []int, r *nn.Resident, layers ...int) *bench {
	t.Helper()
	on := make(map[int]nn.Placement)
	for _, i := range layers {
		on[i] = r
	}
	b := newBench(t, mlp(seed, sizes, on), sizes[0])
	if err := nn.Place(t.Context(), b.model, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// param returns a parameter by name.
func (b *bench) param(t testing.TB, name string) nn.NamedParam {
	t.Helper()
	params := b.Params()
	i := slices.IndexFunc(params, func(p nn.NamedParam) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no parameter %s", name)
	}
	return params[i]
}

// data is a batch of inputs and labels.
func data(rng *rand.Rand, batch, in, classes int) ([]float32, []int32) {
	x, labels := make([]float32, batch*in), make([]int32, batch)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int32N(int32(classes))
	}
	return x, labels
}

func trigonometric(n, k int) coded.Spec { return coded.Spec{Name: "trigonometric", N: n, K: k} }

// always lets the same slots answer.
func always(slots ...int) shard.Survivors {
	return func(*coded.Code, coded.Round, int) []int { return slots }
}

func everySet(n, k int) [][]int {
	code, err := coded.New(trigonometric(n, k))
	if err != nil {
		panic(err)
	}
	next := shard.EverySet()
	var sets [][]int
	for {
		s := slices.Clone(next(code, coded.Round{}, 0))
		if len(sets) > 0 && slices.Equal(s, sets[0]) {
			return sets
		}
		sets = append(sets, s)
	}
}

// apart is the largest difference between x and y over the largest entry of y.
func apart(t testing.TB, x, y []float32) float64 {
	t.Helper()
	if len(x) != len(y) {
		t.Fatalf("%d values, want %d", len(x), len(y))
	}
	var d, most float64
	for i, v := range y {
		e := math.Abs(float64(x[i]) - float64(v))
		if math.IsNaN(e) {
			return math.Inf(1)
		}
		d, most = max(d, e), max(most, math.Abs(float64(v)))
	}
	if most == 0 {
		return d
	}
	return d / most
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not mention %q", err, p)
		}
	}
}

// spy is an executor that records rounds and may change answers.
type spy struct {
	coded.Executor
	rounds []coded.Round
	change func([][]coded.Answer) [][]coded.Answer
}

func (s *spy) Start(ctx context.Context, r coded.Round) (coded.Pending, error) {
	p, err := s.Executor.Start(ctx, r)
	r.Operand = coded.Tensor{Shape: r.Operand.Shape}
	s.rounds = append(s.rounds, r)
	return &spied{p, s}, err
}

type spied struct {
	coded.Pending
	spy *spy
}

func (p *spied) Wait(ctx context.Context) ([][]coded.Answer, error) {
	a, err := p.Pending.Wait(ctx)
	if err == nil && p.spy.change != nil {
		a = p.spy.change(a)
	}
	return a, err
}
