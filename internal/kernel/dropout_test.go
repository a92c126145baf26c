package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// An entry is dropped or scaled, as often as the rate tells, by a mask that
// depends on the key and the index alone.
func TestDropout(t *testing.T) {
	const n = 100003
	x, y, again := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = float32(i + 1)
	}
	key := DropoutKey{Seed: 1, Step: 2, Layer: 3}
	Dropout(nil, y, x, 0.3, key)
	kept := 0
	for i, v := range y {
		if v != 0 {
			kept++
			if want := x[i] * float32(1/0.7); v != want {
				t.Fatalf("entry %d is %v, want %v or 0", i, v, want)
			}
		}
	}
	// four standard deviations of a binomial distribution
	if d := math.Abs(float64(kept) - 0.7*n); d > 4*math.Sqrt(0.3*0.7*n) {
		t.Errorf("%d of %d entries kept at rate 0.3", kept, n)
	}
	agree := func(k DropoutKey) (same int) {
		Dropout(nil, again, x, 0.3, k)
		for i := range y {
			if (y[i] == 0) == (again[i] == 0) {
				same++
			}
		}
		return same
	}
	for _, k := range []DropoutKey{{Seed: 2, Step: 2, Layer: 3}, {Seed: 1, Step: 3, Layer: 3}, {Seed: 1, Step: 2, Layer: 4}, {Seed: 1, Step: 3, Layer: 2}} {
		if same := float64(agree(k)); math.Abs(same-0.58*n) > 4*math.Sqrt(0.58*0.42*n) {
			t.Errorf("key %v: %v of %d decisions agree, want 58 %%", k, same, n)
		}
	}
	Dropout(nil, again[:1001], x[:1001], 0.3, key)
	checkSame(t, "a part", again[:1001], y[:1001])
	onThreads(t, func(p *Pool) [][]float32 {
		if a := steady.Allocs(2, func() { Dropout(p, again, x, 0.3, key) }); a > 0 {
			t.Errorf("%v allocations, want none", a)
		}
		return [][]float32{again}
	})
	checkSame(t, "in parallel", again, y)
}

func TestDropoutLimits(t *testing.T) {
	x := []float32{1, 2, nan}
	y := make([]float32, 3)
	if Dropout(nil, y, x, 0, DropoutKey{}); y[0] != 1 || y[1] != 2 || y[2] == y[2] {
		t.Errorf("rate 0: %v", y)
	}
	if Dropout(nil, y, x, 1, DropoutKey{}); y[0] != 0 || y[1] != 0 || y[2] == y[2] {
		t.Errorf("rate 1: %v", y)
	}
	for _, rate := range []float64{-0.1, 1.1, math.NaN()} {
		if got := fmt.Sprint(catch(func() { Dropout(nil, y, x, rate, DropoutKey{}) })); !strings.Contains(got, "want 0 to 1") {
			t.Errorf("rate %v: panic %q", rate, got)
		}
	}
}
