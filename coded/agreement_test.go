package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Honest results to spare agree up to rounding, of codes of one factor and of two; with
// a wrong one they do not, and without any to spare nothing is said.
func TestAgreement(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "trigonometric", N: 6, K: 4}, {Name: "cauchy", N: 6, K: 4}, {Name: "replication", N: 6, K: 3},
		{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}, {Name: "trigonometric-matdot", N: 6, P: 2}, {Name: "rotation", N: 6, M: 4, Q: 4},
	} {
		c, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		given := answers(t, c, rng, 5)
		a := NewAgreement(c)
		for size := 1; size <= c.N(); size++ {
			err := eachSubset(c.N(), size, func(set []int) error {
				results := resultsOf(given, set)
				residual, checks, err := a.Residual(set, results)
				if err != nil || !(residual < 1e-5) {
					t.Errorf("%v, tasks %v: residual %g, %v", c, set, residual, err)
				}
				if spare := a.Spare(set); c.MDS() && spare != (checks > 0) || spare && checks == 0 {
					t.Errorf("%v, tasks %v: spare %v, %d checks", c, set, spare, checks)
				}
				if want := len(results) - rankOf(t, c, set); checks != want {
					t.Errorf("%v, tasks %v: %d checks, want %d", c, set, checks, want)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		all := make([]int, c.N())
		for i := range all {
			all[i] = i
		}
		for liar := range all {
			results := resultsOf(given, all)
			results[liar] = slices.Clone(results[liar])
			results[liar][3] += 10
			if residual, _, err := a.Residual(all, results); err != nil || residual < 0.05 {
				t.Errorf("%v: result %d is wrong: residual %g, %v", c, liar, residual, err)
			}
		}
	}
}

// resultsOf lists the results of some tasks.
func resultsOf(given []TaskResults, set []int) (results [][]float32) {
	for _, t := range set {
		for _, r := range given[t].Results {
			results = append(results, r.Data)
		}
	}
	return results
}

// rankOf is the number of results of a set of which none follows from the others.
func rankOf(t *testing.T, c *Code, set []int) int {
	t.Helper()
	tracker := NewRankTracker(c)
	for _, task := range set {
		tracker.Add(task)
	}
	return tracker.rank
}

func TestAgreementErrors(t *testing.T) {
	c, err := New(Spec{Name: "trigonometric", N: 3, K: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := NewAgreement(c)
	one := []float32{1}
	for name, call := range map[string]func() error{
		"no such task": func() error { _, _, err := a.Residual([]int{0, 3}, [][]float32{one, one}); return err },
		"twice":        func() error { _, _, err := a.Residual([]int{1, 1}, [][]float32{one, one}); return err },
		"order":        func() error { _, _, err := a.Residual([]int{1, 0}, [][]float32{one, one}); return err },
		"number":       func() error { _, _, err := a.Residual([]int{0, 1}, [][]float32{one}); return err },
		"sizes":        func() error { _, _, err := a.Residual([]int{0, 1}, [][]float32{one, {1, 2}}); return err },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		} else if task := new(TaskError); (name == "no such task" || name == "twice") && !errors.As(err, &task) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if residual, checks, err := a.Residual([]int{0, 1}, [][]float32{{0}, {0}}); residual != 0 || checks != 1 || err != nil {
		t.Errorf("results of zeros: %g, %d checks, %v", residual, checks, err)
	}
	if residual, _, _ := a.Residual([]int{0, 1}, [][]float32{{float32(math.NaN())}, {0}}); !math.IsNaN(residual) {
		t.Errorf("NaN gives %g", residual)
	}
}

// What it costs to compare a sample of a round's results.
func BenchmarkAgreement(b *testing.B) {
	c, err := New(Spec{Name: "trigonometric", N: 8, K: 6})
	if err != nil {
		b.Fatal(err)
	}
	a, have, results := NewAgreement(c), []int{0, 1, 2, 3, 4, 5, 6}, make([][]float32, 7)
	for i := range results {
		results[i] = make([]float32, 256)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := a.Residual(have, results); err != nil {
			b.Fatal(err)
		}
	}
}
