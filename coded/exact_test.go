package coded

import (
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestExactTracker decides what float64 cannot: rows that differ by less than its
// tolerance are independent, and those that add up exactly are not.
func TestExactTracker(t *testing.T) {
	d := fromGenerator([][]float64{{1 << 30, 1}, {1 << 30, 0}, {1 << 29, 0}})
	d.Name, d.Threshold = "nearly parallel", 2
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := NewExactTracker(c)
	if err != nil {
		t.Fatal(err)
	}
	if !exact.Add(1) || exact.Add(2) || exact.Ready() || !exact.Add(0) || !exact.Ready() {
		t.Error("want tasks 1 and 0 to be innovative and enough, and 2 a multiple of 1")
	}
	if exact.Add(0) || exact.Add(-1) || exact.Add(3) {
		t.Error("a task that was added, or does not exist, is innovative")
	}
	exact.Reset()
	if exact.Ready() || !exact.Add(2) {
		t.Error("Reset forgets nothing")
	}
	float := NewRankTracker(c)
	if !float.Add(1) || float.Add(0) {
		t.Error("in float64, rows at an angle of 1e-9 count as parallel")
	}
}

func TestNoExactForm(t *testing.T) {
	half := fromGenerator([][]float64{{0.5}})
	short := fromGenerator([][]float64{{1}})
	short.Modular = func(field.Prime) ([]ModularTask, error) { return nil, nil }
	wide := fromGenerator([][]float64{{1}})
	wide.Modular = func(field.Prime) ([]ModularTask, error) { return linearTasks([][]uint64{{1, 2}}, 1), nil }
	two := fromGenerator([][]float64{{1}})
	two.Modular = func(field.Prime) ([]ModularTask, error) {
		return []ModularTask{{A: [][]uint64{{1}, {2}}, B: [][]uint64{{1}}}}, nil
	}
	for want, d := range map[string]Definition{
		"coefficient 0.5, want an integer":      half,
		"0 modular tasks for 1":                 short,
		"modular task 0: coded A block 0 has 2": wide,
		"modular task 0 has 2 results, want 1":  two,
	} {
		d.Name, d.Threshold = "test", 1
		c, err := NewCode(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewExactTracker(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
