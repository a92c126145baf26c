package coded

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTrigonometricConditions compares with values computed independently in
// NumPy over all survivor sets.
func TestTrigonometricConditions(t *testing.T) {
	for _, want := range []struct {
		n, k, sets            int
		worst, median, factor float64
	}{
		{6, 4, 15, 4.7, 2.5, 3.7},
		{8, 6, 28, 7.3, 3.7, 5.0},
		{10, 8, 45, 10, 3.5, 6.3},
		{12, 9, 220, 37, 6.9, 23},
		{18, 15, 816, 103, 9.1, 55},
	} {
		c, err := New(Spec{Name: "trigonometric", N: want.n, K: want.k})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Conditions(1000, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Sets != want.sets || !got.Exhaustive {
			t.Errorf("%v: %d sets, exhaustive %t; want all %d", c, got.Sets, got.Exhaustive, want.sets)
		}
		for what, v := range map[string][2]float64{
			"worst": {got.Worst, want.worst}, "median": {got.Median, want.median}, "amplification": {got.Amplification, want.factor},
		} {
			if math.Abs(v[0]-v[1]) > 0.05*v[1] {
				t.Errorf("%v: %s %.4g, want %.3g", c, what, v[0], v[1])
			}
		}
	}
}

func TestConditions(t *testing.T) {
	c := mustCode(t, "trigonometric", 18, 15)
	all, err := c.Conditions(816, nil) // all there are: no randomness needed
	if err != nil || !all.Exhaustive || all.Sets != 816 {
		t.Fatalf("%+v, error %v", all, err)
	}
	w, err := c.solve(all.WorstSet)
	if err != nil || w.Cond != all.Worst {
		t.Errorf("the worst set %v has condition number %g, want %g; error %v", all.WorstSet, w.Cond, all.Worst, err)
	}
	some, err := c.Conditions(100, rand.New(rand.NewPCG(1, 2)))
	if err != nil || some.Exhaustive || some.Sets != 100 || some.Worst > all.Worst || some.Median > all.Worst || some.Median < 1 {
		t.Errorf("sampled: %+v, error %v", some, err)
	}
	again, err := c.Conditions(100, rand.New(rand.NewPCG(1, 2)))
	if err != nil || again.Worst != some.Worst || again.Median != some.Median {
		t.Errorf("the same seed gives %+v and then %+v, error %v", some, again, err)
	}
	for what, limit := range map[string]int{"no random source": 815, "no sets": 0} {
		if r, err := c.Conditions(limit, nil); err == nil {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestConditionsOfAWrongClaim: a set that does not decode shows as infinite.
func TestConditionsOfAWrongClaim(t *testing.T) {
	d := fromGenerator([][]float64{{1, 0}, {1, 0}, {0, 1}})
	d.Name, d.Threshold = "wrong", 2
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Conditions(10, nil)
	if err != nil || !math.IsInf(got.Worst, 1) || got.Median != 1 || got.WorstSet[0] != 0 || got.WorstSet[1] != 1 {
		t.Errorf("%+v, error %v", got, err)
	}
}
