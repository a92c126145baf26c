package coded

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
)

func TestWeightsOfCopies(t *testing.T) {
	c := mustCode(t, "replication", 6, 2)
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{3, 0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.Have, []int{0, 2, 3}) {
		t.Errorf("weights for %v", w.Have)
	}
	for i, want := range [][]float64{{0.5, 0.5, 0}, {0, 0, 1}} {
		for j, v := range w.Row(i) {
			if !near(v, want[j]) || (want[j] == 0) != (v == 0) {
				t.Errorf("output %d: weights %v, want the mean of the copies %v", i, w.Row(i), want)
			}
		}
	}
	if !near(w.Amplification(), 1) || !near(w.Cond, math.Sqrt2) {
		t.Errorf("amplification %g, want 1; condition number %g, want sqrt(2)", w.Amplification(), w.Cond)
	}
}

// TestUncodedIsCopied: no rounding where there is nothing to compute.
func TestUncodedIsCopied(t *testing.T) {
	c := mustCode(t, "uncoded", 5, 5)
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{4, 3, 2, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.D {
		for j, v := range w.D[i] {
			if (i == j) != (v == 1) || (i != j) != (v == 0) {
				t.Errorf("weight of result %d for block %d is %g", j, i, v)
			}
		}
	}
	if w.Cond != 1 || w.Residual != 0 {
		t.Errorf("condition number %g, residual %g", w.Cond, w.Residual)
	}
}

// TestWholeWeightsAreExact: where the weights are small whole numbers, as in a
// code of sums, elimination finds them without rounding.
func TestWholeWeightsAreExact(t *testing.T) {
	d := fromGenerator([][]float64{{1, 0, 0}, {1, 1, 0}, {1, 1, 1}, {2, 1, 0}})
	d.Name, d.Threshold = "sums", 4
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float64{{-1, 0, 1}, {2, 0, -1}, {-1, 1, 0}} {
		if !slices.Equal(w.D[i], want) {
			t.Errorf("block %d: weights %v, want %v", i, w.D[i], want)
		}
	}
}

// TestBestEstimate: of too few results the weights are still those of least
// squares, and the residual is what they leave.
func TestBestEstimate(t *testing.T) {
	c := mustCode(t, "replication", 4, 4)
	d := NewDecoder(c, DecoderConfig{})
	w, err := d.Weights([]int{0, 2})
	var few *InsufficientError
	if !errors.As(err, &few) || !errors.Is(err, ErrTooFewResults) {
		t.Fatalf("error %v", err)
	}
	if !slices.Equal(few.Missing, []int{1, 3}) || few.Threshold != 4 || !slices.Equal(few.Have, []int{0, 2}) || few.Residual != w.Residual {
		t.Errorf("%+v", few)
	}
	if !near(w.Residual, 0.5) || !slices.Equal(w.Residuals, []float64{0, 1, 0, 1}) {
		t.Errorf("residual %g of %v, want half of the outputs", w.Residual, w.Residuals)
	}
	if again, err := d.Weights([]int{2, 0}); again != w || !errors.Is(err, ErrTooFewResults) {
		t.Errorf("from the cache: error %v", err)
	}

	w, err = d.Weights(nil)
	if !errors.Is(err, ErrTooFewResults) || w.Residual != 1 || len(w.D) != 4 || w.Amplification() != 0 {
		t.Errorf("no results: weights %+v, error %v", w, err)
	}
	// One result short of an orthonormal frame: the residual is the squared
	// distance of the unit vectors from 5 rows, in all 1 of 6.
	w, err = NewDecoder(mustCode(t, "trigonometric", 6, 6), DecoderConfig{}).Weights([]int{0, 1, 2, 3, 4})
	if !errors.Is(err, ErrTooFewResults) || !near(w.Residual, 1.0/6) {
		t.Errorf("five of six: residual %g, error %v", w.Residual, err)
	}
}

// TestSomeOutputs: a result that decodes one of two wanted sums says so.
func TestSomeOutputs(t *testing.T) {
	c, err := NewCode(Definition{
		Name: "sums", ABlocks: 3, BBlocks: 1, Threshold: 2,
		Outputs: []Output{{{0, 0}, {1, 0}}, {{2, 0}}},
		Tasks:   linearTasks([][]float64{{2, 2, 0}, {1, 1, 1}}, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{0})
	var few *InsufficientError
	if !errors.As(err, &few) || !slices.Equal(few.Missing, []int{1}) || !near(w.D[0][0], 0.5) {
		t.Errorf("weights %v, error %v", w.D, err)
	}
	w, err = NewDecoder(c, DecoderConfig{}).Weights([]int{0, 1})
	if err != nil || !near(w.D[0][0], 0.5) || w.D[0][1] != 0 || !near(w.D[1][0], -0.5) || !near(w.D[1][1], 1) {
		t.Errorf("weights %v, error %v; want [0.5 0] and [-0.5 1]", w.D, err)
	}
}

func TestIllConditioned(t *testing.T) {
	steep := fromGenerator([][]float64{{1, 0}, {1, 1e-4}, {0, 1}})
	steep.Name, steep.Threshold, steep.MDS = "steep", 2, true
	c, err := NewCode(steep)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewDecoder(c, DecoderConfig{MaxCond: 1e4}).Weights([]int{0, 1})
	var ill *ConditionError
	if !errors.As(err, &ill) || !errors.Is(err, ErrIllConditioned) || errors.Is(err, ErrTooFewResults) {
		t.Fatalf("error %v", err)
	}
	if ill.Cond != w.Cond || math.Abs(w.Cond-2e4) > 1 || ill.Limit != 1e4 || w.Residual > 1e-20 {
		t.Errorf("%+v, weights %+v; want a condition number of 2e4", ill, w)
	}
	if _, err := NewDecoder(c, DecoderConfig{}).Weights([]int{0, 1}); err != nil {
		t.Errorf("within the default limit: %v", err)
	}
	if _, err := NewDecoder(c, DecoderConfig{MaxCond: 1e4}).Weights([]int{0, 1, 2}); err != nil {
		t.Errorf("with one result more: %v", err)
	}

	// Enough by the code's claim, but singular in float64.
	far := mustCode(t, "trigonometric", 200, 40)
	front := make([]int, 40)
	for i := range front {
		front[i] = i
	}
	_, err = NewDecoder(far, DecoderConfig{MaxCond: math.MaxFloat64}).Weights(front)
	if !errors.As(err, &ill) || !math.IsInf(ill.Cond, 1) {
		t.Errorf("40 adjacent points of 200: error %v", err)
	}
}

func TestWeightsOfNoSet(t *testing.T) {
	d := NewDecoder(mustCode(t, "trigonometric", 4, 2), DecoderConfig{})
	for want, set := range map[string][]int{
		"coded: weights: trigonometric (4,2): task 4, want 0 to 3":    {0, 4},
		"coded: weights: trigonometric (4,2): task -1, want 0 to 3":   {-1, 1},
		"coded: weights: trigonometric (4,2): task 2 is listed twice": {1, 2, 2},
	} {
		if w, err := d.Weights(set); w != nil || err == nil || err.Error() != want {
			t.Errorf("%v: weights %v, error %v", set, w, err)
		}
	}
}

// TestCacheIsBounded: the sets used last are kept.
func TestCacheIsBounded(t *testing.T) {
	d := NewDecoder(mustCode(t, "trigonometric", 9, 2), DecoderConfig{CacheSize: 2})
	get := func(set ...int) *Weights {
		w, err := d.Weights(set)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	a := get(0, 8)
	get(1, 2)
	if get(8, 0) != a {
		t.Error("the first set was forgotten while two fit")
	}
	get(3, 4) // pushes out (1,2), which was used longer ago
	if get(0, 8) != a {
		t.Error("the set used last was forgotten")
	}
	if len(d.cache.entries) != 2 || d.cache.order.Len() != 2 {
		t.Errorf("%d sets are cached, %d are in order", len(d.cache.entries), d.cache.order.Len())
	}
	if allocs := testing.AllocsPerRun(10, func() { get(0, 8) }); allocs > 1 { // 1: the argument of get
		t.Errorf("%v allocations for a set that is cached", allocs)
	}
}

func TestDecoderIsConcurrent(t *testing.T) {
	c := mustCode(t, "trigonometric", 6, 4)
	d := NewDecoder(c, DecoderConfig{CacheSize: 3})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				out := (g + i) % 6
				var set []int
				for task := range 6 {
					if task != out {
						set = append(set, task)
					}
				}
				if w, err := d.Weights(set); err != nil || !slices.Equal(w.Have, set) {
					t.Errorf("set %v: weights %+v, error %v", set, w, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkWeights(b *testing.B) {
	for _, size := range [][2]int{{8, 6}, {31, 28}} {
		c := mustCode(b, "trigonometric", size[0], size[1])
		set := make([]int, size[1])
		for i := range set {
			set[i] = i
		}
		b.Run(fmt.Sprintf("cached/n=%d/k=%d", size[0], size[1]), func(b *testing.B) {
			d := NewDecoder(c, DecoderConfig{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Weights(set); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("computed/n=%d/k=%d", size[0], size[1]), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.solve(set); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
