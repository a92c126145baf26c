package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// newLocal places one layer of 8 inputs and 12 outputs, in 2 chunks.
func newLocal(t *testing.T, survivors shard.Survivors) (*shard.Local, []float32) {
	t.Helper()
	e := shard.NewLocal(shard.LocalConfig{Survivors: survivors})
	weight := normal(rand.New(rand.NewPCG(1, 1)), 8*12)
	place(t, e, weight)
	return e, weight
}

func place(t *testing.T, e *shard.Local, weight []float32) {
	t.Helper()
	c := shard.LinearConfig{In: 8, Out: 12, Backward: true}
	l := newLayer(t, "fc1", c, trigonometric(6, 4), 2)
	err := e.Place(t.Context(), l, func(slot int) ([]coded.Tensor, error) {
		return c.Encode(weight, nil, newCode(t, l.Code), slot)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, e coded.Executor, r coded.Round) coded.Pending {
	t.Helper()
	p, err := e.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLocalAnswersOfTheChosenSlots(t *testing.T) {
	want := [][]int{{0, 2, 3, 5}, {1, 2, 3, 4, 5}} // one more than needed is fine
	e, weight := newLocal(t, func(_ *coded.Code, r coded.Round, chunk int) []int {
		if r.Layer != "fc1" || r.Product != coded.Forward || r.Step != 7 {
			t.Errorf("round %+v", r)
		}
		return want[chunk]
	})
	rng := rand.New(rand.NewPCG(2, 2))
	x := matrix(3, 8, normal(rng, 24))
	y := product(x.Data, false, weight, true, 3, 8, 12)
	p := start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Step: 7, Operand: x})
	clear(x.Data) // the operand was copied
	got, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decoded := coded.NewTensor(3, 12)
	d := coded.NewDecoder(newCode(t, trigonometric(6, 4)), coded.DecoderConfig{})
	for chunk, answers := range got {
		var slots []int
		var results []coded.Tensor
		for _, a := range answers {
			slots, results = append(slots, a.Slot), append(results, a.Result)
		}
		if !slices.Equal(slots, want[chunk]) {
			t.Errorf("chunk %d: answers of %v, want %v", chunk, slots, want[chunk])
		}
		w, err := d.Weights(slots)
		if err != nil {
			t.Fatal(err)
		}
		lo, _ := shard.ChunkRange(3, 2, chunk)
		if err := coded.DecodeColumns(decoded, w.D, results, coded.Blocks(12, 4), lo); err != nil {
			t.Fatal(err)
		}
	}
	if diff := difference(t, decoded.Data, y); !(diff <= 1e-5) {
		t.Errorf("decoded product differs by %.2g", diff)
	}
	p.Release()
	p.Release()
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("a released round gave answers")
	}
}

func TestLocalTooFew(t *testing.T) {
	e, _ := newLocal(t, func(*coded.Code, coded.Round, int) []int { return []int{0, 4, 5} })
	p := start(t, e, coded.Round{Layer: "fc1", Product: coded.Backward, Step: 9, Operand: coded.NewTensor(2, 12)})
	defer p.Release()
	_, err := p.Wait(t.Context())
	var tooFew *coded.TooFewError
	if !errors.As(err, &tooFew) {
		t.Fatalf("%v, want a *TooFewError", err)
	}
	if tooFew.Layer != "fc1" || tooFew.Product != coded.Backward || tooFew.Step != 9 || tooFew.Have != 3 || tooFew.Need != 4 || len(tooFew.Missing) != 3 {
		t.Errorf("%+v", tooFew)
	}
	if _, err := e.Fetch(t.Context(), "fc1"); !errors.Is(err, coded.ErrTooFewResults) {
		t.Errorf("fetch: %v", err)
	}
}

func TestLocalRefuses(t *testing.T) {
	e, _ := newLocal(t, func(*coded.Code, coded.Round, int) []int { return []int{3, 2, 1, 0} })
	ctx := t.Context()
	_, err := e.Start(ctx, coded.Round{Layer: "fc9", Product: coded.Forward})
	wantError(t, err, "fc9", "not been placed")
	_, err = e.Start(ctx, coded.Round{Layer: "fc1", Product: 9})
	wantError(t, err, "fc1", "product(9)")
	_, err = e.Fetch(ctx, "fc9")
	wantError(t, err, "fc9", "not been placed")
	_, err = start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Operand: coded.NewTensor(1, 8)}).Wait(ctx)
	wantError(t, err, "[3 2 1 0]", "increasing")
	_, err = start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Discard: true}).Wait(ctx)
	wantError(t, err, "discarded")
	wantError(t, e.Update(ctx, coded.Update{}), "step below 1")

	bad := newLayer(t, "fc2", shard.LinearConfig{In: 8, Out: 12}, trigonometric(6, 4), 1)
	none := func(int) ([]coded.Tensor, error) { return nil, errors.New("no state today") }
	wantError(t, e.Place(ctx, bad, none), "fc2", "no state today")
	wantError(t, e.Place(ctx, bad, func(int) ([]coded.Tensor, error) { return nil, nil }), "fc2", "0 tensors")
	bad.Kind = "conv3d"
	wantError(t, e.Place(ctx, bad, none), "fc2", `"conv3d"`)
	bad.Code.Name = "magic"
	wantError(t, e.Place(ctx, bad, none), "fc2", "magic")

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = e.Start(ended, coded.Round{Layer: "fc1", Product: coded.Forward})
	_, fetchErr := e.Fetch(ended, "fc1")
	_, waitErr := start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Operand: coded.NewTensor(1, 8)}).Wait(ended)
	for _, err := range []error{err, fetchErr, waitErr, e.Update(ended, coded.Update{Step: 1})} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the error of the context", err)
		}
	}
}

// Operands kept by the rounds of a step are applied by its update, in pairs, once.
func TestLocalUpdate(t *testing.T) {
	e, weight := newLocal(t, nil)
	rng := rand.New(rand.NewPCG(3, 3))
	ref := &uncoded{w: make([]float64, 96), v: make([]float64, 96), g: make([]float64, 96)}
	for i, w := range weight {
		ref.w[i] = float64(w)
	}
	u := coded.Update{LR: 0.1, Momentum: 0.9, Scale: 0.5, Decay: 0.1}
	keep := func(step int, wanted bool) {
		x, dy := normal(rng, 16), normal(rng, 24)
		start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Step: step, Operand: matrix(2, 8, x), Keep: true}).Release()
		start(t, e, coded.Round{Layer: "fc1", Product: coded.Backward, Step: step, Operand: matrix(2, 12, dy), Keep: true, Discard: true}).Release()
		if wanted {
			ref.accumulate(x, dy, 2, 8, 12)
		}
	}
	for step := 1; step <= 4; step++ {
		u.Step = step
		keep(step-1, false) // of a step that failed
		keep(step, true)
		keep(step, true) // a second micro-batch
		for range 2 {
			if err := e.Update(t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
		ref.apply(u)
		// A round of an evaluation keeps nothing.
		start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Step: step + 1, Operand: coded.NewTensor(5, 8)}).Release()
	}
	list, err := e.Fetch(t.Context(), "fc1")
	if err != nil {
		t.Fatal(err)
	}
	c := shard.LinearConfig{In: 8, Out: 12, Backward: true}
	w, _, err := c.Decode(list, coded.NewDecoder(newCode(t, trigonometric(6, 4)), coded.DecoderConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(t, w, ref.weight()); !(d <= 1e-5) {
		t.Errorf("weight differs by %.2g", d)
	}
	clear(list[0].State[0].Data) // fetched states are copies
	if slices.Max(e.Shard("fc1", list[0].Slot).State()[0].Data) == 0 {
		t.Error("Fetch gave the shard's own memory")
	}
	if e.Shard("fc1", 6) != nil || e.Shard("fc2", 0) != nil {
		t.Error("a shard that does not exist")
	}

	start(t, e, coded.Round{Layer: "fc1", Product: coded.Forward, Step: 5, Operand: coded.NewTensor(2, 8), Keep: true}).Release()
	u.Step = 5
	wantError(t, e.Update(t.Context(), u), "fc1", "step 5", "1 forward and 0 backward")
}

func TestEverySetInTurn(t *testing.T) {
	trig := newCode(t, trigonometric(6, 4))
	next := shard.EverySet()
	seen := make(map[string]int)
	for range 30 {
		seen[fmt.Sprint(next(trig, coded.Round{}, 0))]++
	}
	if len(seen) != 15 {
		t.Errorf("%d sets of 4 of 6, want 15", len(seen))
	}
	for s, n := range seen {
		if n != 2 {
			t.Errorf("set %s came %d times in two rounds", s, n)
		}
	}
	// Of replication, only sets with every block are sufficient: 2*2 of 6.
	replication := newCode(t, coded.Spec{Name: "replication", N: 4, K: 2})
	clear(seen)
	for range 8 {
		seen[fmt.Sprint(next(replication, coded.Round{}, 0))]++
	}
	if len(seen) != 4 {
		t.Errorf("sets %v, want 4 different ones", seen)
	}
}

func TestRandomSurvivorsSuffice(t *testing.T) {
	a, b := shard.RandomSurvivors(5), shard.RandomSurvivors(5)
	for _, spec := range []coded.Spec{trigonometric(8, 6), {Name: "replication", N: 6, K: 3}} {
		code := newCode(t, spec)
		tracker := coded.NewTracker(code)
		different := make(map[string]bool)
		for range 50 {
			set := slices.Clone(a(code, coded.Round{}, 0))
			if other := b(code, coded.Round{}, 0); !slices.Equal(set, other) {
				t.Fatalf("%v and %v for the same seed", set, other)
			}
			tracker.Reset()
			for _, slot := range set {
				tracker.Add(slot)
			}
			if !tracker.Ready() || !slices.IsSorted(set) {
				t.Fatalf("%v: survivors %v", spec, set)
			}
			different[fmt.Sprint(set)] = true
		}
		if len(different) < 5 {
			t.Errorf("%v: only the sets %v", spec, different)
		}
	}
}
