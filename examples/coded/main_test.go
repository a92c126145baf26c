package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestRun: the coded layers follow the local ones, and both learn.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
	var first, last float64
	for i, line := range lines {
		var step int
		var local, coded float64
		if _, err := fmt.Sscanf(line, "%d %f %f", &step, &local, &coded); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if d := math.Abs(local - coded); d > 1e-3 {
			t.Errorf("step %d: loss %v coded, %v local", step, coded, local)
		}
		if i == 0 {
			first = coded
		}
		last = coded
	}
	if len(lines) != 8 || last > first/100 {
		t.Errorf("the loss went from %v to %v in %d lines", first, last, len(lines))
	}
}
