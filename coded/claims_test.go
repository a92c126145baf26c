package coded

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCheckThreshold(t *testing.T) {
	generator := func(threshold int, g ...[]float64) *Code {
		d := fromGenerator(g)
		d.Name, d.Threshold = "test", threshold
		c, err := NewCode(d)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, test := range map[string]struct {
		code           *Code
		limit, sets    int
		refuted, tight bool
	}{
		"all sets":        {mustCode(t, "trigonometric", 7, 5), 21, 21, false, true},
		"some sets":       {mustCode(t, "trigonometric", 30, 15), 50, 50, false, true},
		"not MDS":         {mustCode(t, "replication", 6, 3), 100, 6, false, true},
		"claims too much": {generator(2, []float64{1, 0}, []float64{2, 0}, []float64{0, 1}), 100, 3, true, true},
		"claims too little": {
			generator(3, []float64{1, 0}, []float64{1, 1}, []float64{0, 1}), 100, 1, false, false,
		},
		"needs nothing": {generator(1, []float64{1}), 10, 1, false, true},
	} {
		got, err := test.code.CheckThreshold(test.limit, rng)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Sets != test.sets || got.Exhaustive != (name != "some sets") || (got.Refuted != nil) != test.refuted || (got.Tight != nil) != test.tight {
			t.Errorf("%s: %+v", name, got)
		}
		if test.refuted && !slices.Equal(got.Refuted, []int{0, 1}) {
			t.Errorf("%s: refuted by %v", name, got.Refuted)
		}
		if test.tight && len(got.Tight) != test.code.Threshold()-1 {
			t.Errorf("%s: %v is no set of one task less", name, got.Tight)
		}
	}
	none := fromGenerator([][]float64{{1}})
	none.Name = "test"
	c, err := NewCode(none)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CheckThreshold(1, rng); err == nil || !strings.Contains(err.Error(), "claims no threshold") {
		t.Errorf("error %v", err)
	}
}
