package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEverySize tries every set of tasks of every code with up to 7 tasks and 3
// blocks along each side: whether it decodes in exact arithmetic and in float64 is
// the same, and what is claimed holds.
func TestEverySize(t *testing.T) {
	for _, f := range bilinearFamilies {
		t.Run(f.Name, func(t *testing.T) {
			codes := 0
			for _, s := range smallSpecs(f) {
				if c, err := New(s); err == nil {
					checkEverySet(t, c)
					codes++
				}
			}
			if codes < 10 {
				t.Errorf("there are %d codes, want 10", codes)
			}
		})
	}
}

// smallSpecs lists the specs of small numbers, most of which have no code.
func smallSpecs(f Family) []Spec {
	specs := []Spec{{Name: f.Name}}
	vary := func(use Params, upTo int, set func(s *Spec, v int)) {
		if use != 0 && f.Uses&use == 0 {
			return
		}
		var more []Spec
		for _, s := range specs {
			for v := 1; v <= upTo; v++ {
				set(&s, v)
				more = append(more, s)
			}
		}
		specs = more
	}
	vary(0, 7, func(s *Spec, v int) { s.N = v })
	vary(UsesK, 4, func(s *Spec, v int) { s.K = v })
	vary(UsesM, 4, func(s *Spec, v int) { s.M = v })
	vary(UsesP, 4, func(s *Spec, v int) { s.P = v })
	vary(UsesQ, 4, func(s *Spec, v int) { s.Q = v })
	vary(UsesGroups, 3, func(s *Spec, v int) { s.Groups = v })
	vary(UsesLoad, 2, func(s *Spec, v int) { s.Load = v })
	return specs
}

func checkEverySet(t *testing.T, c *Code) {
	t.Helper()
	exact, err := NewExactTracker(c)
	if err != nil {
		t.Fatal(err)
	}
	tracker := NewRankTracker(c)
	short := -1 // the size of the largest set that does not decode
	for bits := range 1 << c.N() {
		exact.Reset()
		tracker.Reset()
		for w := range c.N() {
			if bits>>w&1 == 1 {
				exact.Add(w)
				tracker.Add(w)
			}
		}
		ready := exact.Ready()
		if tracker.Ready() != ready && (ready || !regular(t, c, bits)) {
			t.Errorf("%v: tasks %b: ready is %t, exactly %t", c, bits, tracker.Ready(), ready)
		}
		if c.MDS() && ready != (tracker.Count() >= c.Threshold()) {
			t.Errorf("%v: tasks %b: ready is %t, the threshold of an MDS code %d", c, bits, ready, c.Threshold())
		}
		if !ready {
			short = max(short, tracker.Count())
		}
	}
	if short != c.Threshold()-1 {
		t.Errorf("%v: the largest set that does not decode has %d tasks, the threshold is %d", c, short, c.Threshold())
	}
}

// regular tells whether a set of tasks decodes, in float64, because its angles are
// those of a regular polygon. The circle of a prime field has no such points, so
// that in exact arithmetic of trigonometric-matdot these sets do not decode.
func regular(t *testing.T, c *Code, bits int) bool {
	t.Helper()
	if c.Name() != trigonometricMatdot.Name {
		return false
	}
	var set []int
	for w := range c.N() {
		if bits>>w&1 == 1 {
			set = append(set, w)
		}
	}
	w, err := NewDecoder(c, DecoderConfig{MaxCond: math.Inf(1)}).Weights(set)
	if err != nil {
		t.Fatal(err)
	}
	return w.Residual < 1e-24
}

// TestBilinearThresholds compares the thresholds with numbers of the papers.
func TestBilinearThresholds(t *testing.T) {
	for _, want := range []struct {
		spec      Spec
		threshold int
		mds       bool
	}{
		{Spec{Name: "polynomial", N: 17, M: 4, Q: 4}, 16, true},
		{Spec{Name: "ortho-polynomial", N: 17, M: 4, Q: 4}, 16, true},
		{Spec{Name: "random-khatri-rao", N: 17, M: 4, Q: 4}, 16, true},
		{Spec{Name: "systematic-khatri-rao", N: 17, M: 4, Q: 4}, 16, true},
		{Spec{Name: "rotation", N: 11, M: 8, Q: 4}, 8, true},
		{Spec{Name: "matdot", N: 17, P: 4}, 7, false},
		{Spec{Name: "systematic-matdot", N: 17, P: 4}, 7, false},
		{Spec{Name: "ortho-matdot", N: 17, P: 4}, 7, false},
		{Spec{Name: "polydot", N: 17, M: 2, P: 2, Q: 2}, 12, false},
		{Spec{Name: "entangled", N: 17, M: 2, P: 2, Q: 2}, 9, false},
		{Spec{Name: "entangled", N: 17, M: 2, P: 1, Q: 2}, 4, true},
		{Spec{Name: "summed-entangled", N: 17, M: 2, P: 4, Q: 2}, 9, false},
		{Spec{Name: "circulant", N: 11, K: 8}, 8, true},
		{Spec{Name: "product", N: 20, M: 3, Q: 4, Groups: 4}, 17, false},
		{Spec{Name: "bivariate", N: 17, M: 4, Q: 3, Load: 2}, 3, true},
	} {
		if c := mustSpec(t, want.spec); c.Threshold() != want.threshold || c.MDS() != want.mds {
			t.Errorf("%v: threshold %d, MDS %t, want %d, %t", want.spec, c.Threshold(), c.MDS(), want.threshold, want.mds)
		}
	}
}

// TestBilinearLoads compares the loads with what the documentation says.
func TestBilinearLoads(t *testing.T) {
	for _, want := range []struct {
		spec  Spec
		loads Loads
	}{
		{Spec{Name: "polynomial", N: 9, M: 4, Q: 2}, Loads{Compute: 1. / 8, A: 1. / 4, B: 1. / 2, Download: 1. / 8}},
		{Spec{Name: "matdot", N: 9, P: 4}, Loads{Compute: 1. / 4, A: 1. / 4, B: 1. / 4, Download: 1}},
		{Spec{Name: "entangled", N: 18, M: 2, P: 2, Q: 4}, Loads{Compute: 1. / 16, A: 1. / 4, B: 1. / 8, Download: 1. / 8}},
		{Spec{Name: "summed-entangled", N: 18, M: 2, P: 4, Q: 2}, Loads{Compute: 1. / 8, A: 1. / 4, B: 1. / 4, Download: 1. / 4}},
		{Spec{Name: "rotation", N: 9, M: 8, Q: 4}, Loads{Compute: 1. / 8, A: 1. / 4, B: 1. / 2, Download: 1. / 8}},
		{Spec{Name: "circulant", N: 8, K: 4}, Loads{Compute: 1. / 4, A: 1. / 4, B: 1, Download: 1. / 4}},
		{Spec{Name: "bivariate", N: 9, M: 4, Q: 8, Load: 2}, Loads{Compute: 1. / 8, A: 1. / 2, B: 1. / 4, Download: 1. / 8}},
	} {
		if got := mustSpec(t, want.spec).Loads(); got != want.loads {
			t.Errorf("%v: %+v, want %+v", want.spec, got, want.loads)
		}
	}
}

func TestBilinearErrors(t *testing.T) {
	const huge = 1 << 20
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "polynomial", N: 5, M: 2, Q: 3}, "n must be at least m*q = 6"},
		{Spec{Name: "polynomial", N: 5, M: huge, Q: huge}, "n must be at least m*q, but at most 4096"},
		{Spec{Name: "polynomial", N: 4096, M: 64, Q: 65}, "n must be at least m*q, but at most 4096"},
		{Spec{Name: "matdot", N: 4, P: 3}, "n must be at least 2p-1 = 5"},
		{Spec{Name: "matdot", N: 4096, P: 2000}, "the blocks are too many"},
		{Spec{Name: "systematic-matdot", N: 4, P: 3}, "n must be at least 2p-1 = 5"},
		{Spec{Name: "systematic-matdot", N: 4, P: huge}, "n must be at least 2p-1, but at most 4096"},
		{Spec{Name: "ortho-matdot", N: 4, P: 3}, "n must be at least 2p-1 = 5"},
		{Spec{Name: "ortho-polynomial", N: 5, M: 2, Q: 3}, "n must be at least m*q = 6"},
		{Spec{Name: "polydot", N: 11, M: 2, P: 2, Q: 2}, "n must be at least m*q*(2p-1) = 12"},
		{Spec{Name: "entangled", N: 8, M: 2, P: 2, Q: 2}, "n must be at least m*p*q+p-1 = 9"},
		{Spec{Name: "entangled", N: 8, M: huge, P: huge, Q: huge}, "n must be at least m*p*q+p-1, but at most 4096"},
		{Spec{Name: "summed-entangled", N: 8, M: 2, P: 4, Q: 2}, "n must be at least (m*p*q+p)/2-1 = 9"},
		{Spec{Name: "summed-entangled", N: 8, M: 2, P: 3, Q: 2}, "p must be even"},
		{Spec{Name: "random-khatri-rao", N: 5, M: 2, Q: 3}, "n must be at least m*q = 6"},
		{Spec{Name: "systematic-khatri-rao", N: 5, M: huge, Q: 3}, "n must be at least m*q, but at most 4096"},
		{Spec{Name: "rotation", N: 5, M: 3, Q: 4}, "m and q must be even"},
		{Spec{Name: "rotation", N: 5, M: 4, Q: 6}, "n must be at least m*q/4 = 6"},
		{Spec{Name: "circulant", N: 3, K: 4}, "n must be at least k"},
		{Spec{Name: "circulant", N: 1000, K: 800}, "the parts are too many"},
		{Spec{Name: "product", N: 7, M: 2, Q: 2, Groups: 2}, "n must be a multiple of groups, the rows of the grid"},
		{Spec{Name: "product", N: 6, M: 3, Q: 2, Groups: 2}, "the grid of 2 x 3 tasks must have at least m rows and q columns"},
		{Spec{Name: "bivariate", N: 6, M: 3, Q: 2, Load: 2}, "m must be a multiple of load"},
		{Spec{Name: "bivariate", N: 6, M: 4, Q: 1, Load: 2}, "load must be at most q"},
		{Spec{Name: "bivariate", N: 2, M: 4, Q: 3, Load: 2}, "n must be at least m*q/load^2, rounded up, = 3"},
	} {
		_, err := New(test.spec)
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Reason != test.want {
			t.Errorf("%v: error %v, want %s", test.spec, err, test.want)
		}
	}
}

// TestDirectWeights: the first tasks of a systematic code need no decoding, also if
// others have answered, and these weights agree with those of least squares.
func TestDirectWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		spec  Spec
		first int
	}{
		{Spec{Name: "systematic-matdot", N: 9, P: 4}, 4},
		{Spec{Name: "systematic-khatri-rao", N: 9, M: 3, Q: 2, Seed: 3}, 6},
	} {
		c := mustSpec(t, test.spec)
		for more := range c.N() - test.first + 1 {
			have := make([]int, test.first)
			for w := range have {
				have[w] = w
			}
			for _, w := range rng.Perm(c.N() - test.first)[:more] {
				have = append(have, test.first+w)
			}
			slices.Sort(have)
			w, err := NewDecoder(c, DecoderConfig{}).Weights(have)
			if err != nil || w.Residual != 0 {
				t.Fatalf("%v: tasks %v: error %v, residual %g", c, have, err, w.Residual)
			}
			for out, row := range w.D {
				for i, v := range row {
					if direct := i < test.first && (c.Outputs() == 1 || i == out); (v == 1) != direct || (v == 0) == direct {
						t.Errorf("%v: tasks %v: output %d has weight %g for task %d", c, have, out, v, have[i])
					}
				}
			}
			least, err := c.leastNorm(have, c.Wanted())
			if err != nil || len(least.undecoded()) > 0 {
				t.Errorf("%v: tasks %v: least squares: error %v, residual %g", c, have, err, least.Residual)
			}
		}
	}
}
