package coded

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestBatchThresholds compares with the formulas of the papers.
func TestBatchThresholds(t *testing.T) {
	for _, test := range []struct {
		spec      Spec
		threshold int
	}{
		{Spec{Name: "lagrange", N: 9, Batch: 5}, 9},
		{Spec{Name: "csa", N: 15, Batch: 8, Groups: 1}, 15},
		{Spec{Name: "csa", N: 12, Batch: 8, Groups: 4}, 9}, // where lagrange needs 15
		{Spec{Name: "csa", N: 12, Batch: 8, Groups: 8}, 8},
		{Spec{Name: "gcsa", N: 40, Batch: 4, Groups: 2, M: 2, P: 2, Q: 1}, 21},
		{Spec{Name: "rook", N: 30, Batch: 1}, 1},
		{Spec{Name: "rook", N: 30, Batch: 2}, 3},
		{Spec{Name: "rook", N: 30, Batch: 4}, 9},
		{Spec{Name: "rook", N: 30, Batch: 8}, 27},
	} {
		c, err := New(test.spec)
		if err != nil {
			t.Fatal(err)
		}
		if c.Threshold() != test.threshold {
			t.Errorf("%v: threshold %d, want %d", test.spec, c.Threshold(), test.threshold)
		}
		report, err := c.CheckThreshold(20, rand.New(rand.NewPCG(1, 2)))
		if err != nil || report.Refuted != nil || report.Tight == nil {
			t.Errorf("%v: %+v, error %v", test.spec, report, err)
		}
	}
	for want, s := range map[string]Spec{
		"n must be at least 2 batch - 1 = 5":     {Name: "lagrange", N: 4, Batch: 3},
		"batch must be a multiple of groups":     {Name: "csa", N: 9, Batch: 5, Groups: 2},
		"n must be at least 8":                   {Name: "csa", N: 7, Batch: 6, Groups: 2},
		"n must be at least 9, the number":       {Name: "rook", N: 8, Batch: 4},
		"batch, m, p and q must be at most 4096": {Name: "gcsa", N: 9, Batch: 2, Groups: 2, M: 5000, P: 1, Q: 1},
	} {
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want an error with %q, got %v", s, want, err)
		}
	}
}

// TestLagrangeIsSystematic: the first tasks are the wanted products themselves.
func TestLagrangeIsSystematic(t *testing.T) {
	c, err := New(Spec{Name: "lagrange", N: 11, Batch: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if a, b := c.Task(i).A[0], c.Task(i).B[0]; !slices.Equal(a, unit(4, i)) || !slices.Equal(b, unit(4, i)) {
			t.Errorf("task %d has %v and %v, want block %d of both", i, a, b, i)
		}
	}
}

// TestStanley: no exponent is half the sum of two others.
func TestStanley(t *testing.T) {
	e := stanley(16)
	if !slices.Equal(e[:8], []int{0, 1, 3, 4, 9, 10, 12, 13}) {
		t.Errorf("exponents %v", e)
	}
	for i, a := range e {
		for j, b := range e {
			for k, c := range e {
				if 2*a == b+c && (i != j || i != k) {
					t.Errorf("twice %d is %d + %d", a, b, c)
				}
			}
		}
	}
}
