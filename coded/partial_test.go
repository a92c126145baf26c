package coded

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestDerivativeRows: a row is 2 times the derivative of the row before it,
// compared with differences.
func TestDerivativeRows(t *testing.T) {
	const h = 1e-5
	for _, k := range []int{5, 6} {
		s := Spec{N: 1, K: k, Load: 3}
		at := func(theta float64) [][]float64 { return derivativeRows(turned(theta), field.Real{}, s)[0] }
		rows, before, after := at(0.7), at(0.7-h), at(0.7+h)
		for j := range s.Load - 1 {
			for i := range k {
				slope := 2 * (after[j][i] - before[j][i]) / (2 * h)
				if got := rows[j+1][i]; math.Abs(got-slope) > 1e-6*(1+math.Abs(slope)) {
					t.Errorf("k=%d: derivative %d of function %d is %g, differences give %g", k, j+1, i, got, slope)
				}
			}
		}
	}
}

// turned is a point of the circle at an angle.
type turned float64

func (theta turned) point(_, m int) (cos, sin float64) {
	sin, cos = math.Sincos(float64(m) * float64(theta) / 2)
	return cos, sin
}

// TestHierarchical: a layer is there when enough workers have come to its end.
func TestHierarchical(t *testing.T) {
	c, err := NewHierarchical(4, []int{3, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if c.K() != 6 || c.Threshold() != 3 || !c.MDS() || c.Results(0) != 3 {
		t.Errorf("%v: %d blocks, threshold %d, MDS %t, %d results", c, c.K(), c.Threshold(), c.MDS(), c.Results(0))
	}
	chunks, err := c.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	// Layers finished by each worker, and whether that is enough.
	for _, test := range []struct {
		finished [4]int
		ready    bool
	}{{[4]int{3, 2, 1, 0}, true}, {[4]int{0, 3, 3, 1}, true}, {[4]int{3, 1, 1, 1}, false}, {[4]int{2, 2, 2, 2}, false}, {[4]int{3, 3, 0, 0}, false}} {
		tracker := NewTracker(chunks)
		for w, layers := range test.finished {
			for l := range layers {
				tracker.Add(c.Chunk(w, l))
			}
		}
		if tracker.Ready() != test.ready {
			t.Errorf("layers finished %v: ready %t", test.finished, tracker.Ready())
		}
	}
	for want, f := range map[string]func() (*Code, error){
		"0 tasks":                      func() (*Code, error) { return NewHierarchical(0, []int{1}) },
		"no layers":                    func() (*Code, error) { return NewHierarchical(3, nil) },
		"layer 1 needs 4 answers of 3": func() (*Code, error) { return NewHierarchical(3, []int{3, 4}) },
		"groups, the layers":           func() (*Code, error) { return New(Spec{Name: "hierarchical", N: 3, K: 2, Groups: 1}) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if got := layerThresholds(Spec{N: 12, K: 8, Groups: 5}); !slices.Equal(got, []int{12, 10, 8, 6, 4}) {
		t.Errorf("layers need %v", got)
	}
}

// TestCrossParity: with coefficients of 1, decoding adds and subtracts.
func TestCrossParity(t *testing.T) {
	c, err := New(Spec{Name: "cross-parity", N: 6, K: 4, Load: 3})
	if err != nil {
		t.Fatal(err)
	}
	if c.Results(4) != 3 || c.Results(5) != 6 || c.Results(0) != 3 {
		t.Errorf("%d, %d and %d results, want 3 of a message worker and 3 and 6 of parity", c.Results(0), c.Results(4), c.Results(5))
	}
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{0, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range w.D {
		for j, v := range row {
			if math.Abs(v-math.Round(v)) > 1e-12 || math.Abs(v) > 1 {
				t.Errorf("output %d: weight %d is %g", i, j, v)
			}
		}
	}
}

// TestRobustSoliton: peeling alone needs as many results as published for these
// parameters, 1.32 times the blocks at 100 and 1.11 times at 1,000.
func TestRobustSoliton(t *testing.T) {
	for blocks, want := range map[int]float64{100: 1.32, 1000: 1.11} {
		mu := robustSoliton(blocks, 0.03, 0.5)
		var sum float64
		for _, p := range mu {
			sum += p
		}
		if math.Abs(sum-1) > 1e-12 || slices.Min(mu) < 0 {
			t.Errorf("%d blocks: probabilities add up to %g, the least is %g", blocks, sum, slices.Min(mu))
		}
		rng := rand.New(rand.NewPCG(5, 6))
		rounds := 12_000 / blocks
		var needed float64
		for range rounds {
			var rows [][]int
			for done := false; !done; {
				for range max(1, blocks/100) {
					rows = append(rows, rng.Perm(blocks)[:drawDegree(mu, rng)])
				}
				done = len(rows) >= blocks && len(peel(rows, blocks).inactive) == 0
			}
			needed += float64(len(rows)) / float64(blocks) / float64(rounds)
		}
		if math.Abs(needed-want) > 0.08 {
			t.Errorf("%d blocks: peeling needs %.3f times as many results, want %.2f", blocks, needed, want)
		}
	}
}

// TestPeel: peeling finds exactly what the sums determine, as least squares does.
func TestPeel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	decoded := 0
	for range 300 {
		blocks := 1 + rng.IntN(8)
		rows := make([][]int, 1+rng.IntN(12))
		d := Definition{Name: "sums", ABlocks: blocks, BBlocks: 1}
		for r := range rows {
			rows[r] = rng.Perm(blocks)[:1+rng.IntN(blocks)]
			row := make([]float64, blocks)
			for _, b := range rows[r] {
				row[b] = 1
			}
			d.Tasks = append(d.Tasks, Task{A: [][]float64{row}, B: [][]float64{{1}}})
		}
		c, err := NewCode(d)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := NewExactTracker(c)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]int, c.N())
		for r := range all {
			all[r] = r
			exact.Add(r)
		}
		got := peel(rows, blocks).weights()
		if (got != nil) != exact.Ready() {
			t.Fatalf("sums of %v: peeling decodes: %t, exactly: %t", rows, got != nil, exact.Ready())
		}
		if got == nil {
			continue
		}
		decoded++
		if w, err := c.given(all, got); err != nil || w.Residual > 1e-20 {
			t.Fatalf("sums of %v: residual of %v, error %v", rows, w, err)
		}
	}
	if decoded < 50 || decoded > 250 {
		t.Errorf("%d of 300 draws decode: the test shows little", decoded)
	}
}

func TestLTErrors(t *testing.T) {
	for want, s := range map[string]Spec{
		"must be at least k":   {Name: "lt", N: 2, K: 9, Load: 4},
		"load must be k/n":     {Name: "universally-decodable", N: 2, K: 9, Load: 4},
		"load must be at most": {Name: "cross-parity", N: 4096, K: 4000, Load: 1 << 20},
		"160000 results of":    {Name: "cross-parity", N: 40, K: 40, Load: 4000},
		"16777216 results of":  {Name: "lt", N: 4096, K: 2, Load: 4096},
		"want at most 1677721": {Name: "hierarchical", N: 4000, K: 4000, Groups: 4000},
		"load must be at leas": {Name: "lt", N: 2, K: 9},
	} {
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
