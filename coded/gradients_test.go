package coded

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestGradientModular: every gradient code whose coefficients are no integers has
// a form over every field, with the same parts for every worker.
func TestGradientModular(t *testing.T) {
	for _, f := range gradientFamilies {
		for _, spec := range f.Examples {
			c := specCode(t, spec)
			if c.def.Modular == nil {
				continue
			}
			for _, p := range []field.Prime{field.Fermat, field.Mersenne61} {
				tasks, err := c.def.Modular(p)
				if err != nil {
					t.Fatalf("%v modulo %d: %v", spec, p, err)
				}
				for w, task := range tasks {
					if got, want := partsOf(task, c.Pieces()), c.Parts(w); !slices.Equal(got, want) {
						t.Errorf("%v modulo %d: task %d has the parts %v, want %v", spec, p, w, got, want)
					}
				}
			}
		}
	}
}

// partsOf lists the parts with a coefficient that is not 0.
func partsOf(task ModularTask, pieces int) []int {
	var parts []int
	for _, row := range task.A {
		for j, v := range row {
			if v != 0 {
				parts = append(parts, j/pieces)
			}
		}
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// TestGradientLoads: of every family that draws nothing, the parts are known to
// equally many workers, on average load of them to each; a result is a gradient or
// a piece of one.
func TestGradientLoads(t *testing.T) {
	for _, f := range gradientFamilies {
		if f.Name == "bernoulli-gradients" || f.Name == "block-gradients" {
			continue
		}
		for _, spec := range f.Examples {
			c := specCode(t, spec)
			load, copies := max(spec.Load, spec.K/spec.N), make([]int, spec.K)
			total := 0.0
			for w := range spec.N {
				for _, p := range c.Parts(w) {
					copies[p]++
				}
				total += c.TaskLoads(w).Compute
				if got, want := c.TaskLoads(w).Download, float64(c.Results(w))/float64(max(1, spec.M)); got != want {
					t.Errorf("%v: task %d sends %g gradients, want %g", spec, w, got, want)
				}
			}
			if want := float64(load*spec.N) / float64(spec.K); math.Abs(total-want) > 1e-12 {
				t.Errorf("%v: the tasks cost %g times the whole, want %g", spec, total, want)
			}
			if f.Name != "partial-gradients" && slices.Min(copies) != slices.Max(copies) {
				t.Errorf("%v: parts are known to %v workers", spec, copies)
			}
		}
	}
}

// TestGradientAmplification: with an error of size 1 and either sign in every
// result, the squared error of the gradient is, on average over all signs, the
// square of the amplification.
func TestGradientAmplification(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		have []int
		want float64 // 0: whatever it is
	}{
		{Spec{Name: "uncoded-gradients", N: 6, K: 6}, []int{0, 1, 2, 3, 4, 5}, math.Sqrt(6)},
		{Spec{Name: "fractional-repetition", N: 6, K: 6, Load: 2}, []int{0, 1, 2, 4}, math.Sqrt(2.5)},
		{Spec{Name: "cyclic-reed-solomon", N: 6, K: 6, Load: 3}, []int{0, 1, 2, 5}, 0},
		{Spec{Name: "cyclic-random", N: 6, K: 6, Load: 3, Seed: 1}, []int{0, 1, 2, 5}, 0},
	} {
		w, err := NewDecoder(specCode(t, test.spec), DecoderConfig{}).Weights(test.have)
		if err != nil {
			t.Fatal(err)
		}
		n := len(test.have)
		var mean float64
		for signs := range 1 << n {
			var e float64
			for i, a := range w.Row(0) {
				if signs&(1<<i) != 0 {
					a = -a
				}
				e += a
			}
			mean += e * e / float64(int(1)<<n)
		}
		if got := w.Amplification(); math.Abs(got-math.Sqrt(mean)) > 1e-9*got || test.want != 0 && math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v: amplification %g, the error is %g, want %g", test.spec, got, math.Sqrt(mean), test.want)
		}
	}
}

// TestGradientSpecs: what there is no code for says why.
func TestGradientSpecs(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "uncoded-gradients", N: 4, K: 6}, "k must be a multiple of n"},
		{Spec{Name: "uncoded-gradients", N: 4096, K: 8192}, "k must be at most 4096"},
		{Spec{Name: "fractional-repetition", N: 6, K: 6, Load: 4}, "load must divide k"},
		{Spec{Name: "fractional-repetition", N: 5, K: 6, Load: 2}, "must divide n"},
		{Spec{Name: "fractional-repetition", N: 4096, K: 8192, Load: 2}, "k must be at most 4096"},
		{Spec{Name: "cyclic-reed-solomon", N: 4, K: 6, Load: 2}, "k must be a multiple of n, and load of k/n"},
		{Spec{Name: "cyclic-reed-solomon", N: 4, K: 8, Load: 3}, "k must be a multiple of n, and load of k/n"},
		{Spec{Name: "cyclic-reed-solomon", N: 4, K: 4, Load: 5}, "load is 5 parts of k = 4"},
		{Spec{Name: "cyclic-reed-solomon", N: 100, K: 100, Load: 65}, "every part is known to n*load/k = 65 workers, want at most 64"},
		{Spec{Name: "cyclic-random", N: 3, K: 3, Load: 4, Seed: 1}, "load is 4 parts"},
		{Spec{Name: "cyclic-sum", N: 3, K: 4, Load: 2}, "k must be a multiple of n"},
		{Spec{Name: "communication-efficient", N: 6, K: 6, Load: 2, M: 3}, "must be at least m, the pieces"},
		{Spec{Name: "communication-efficient", N: 4096, K: 4096, Load: 2, M: 2}, "for each of 2 pieces"},
		{Spec{Name: "heterogeneous-gradients", N: 4, K: 6, Load: 4, Groups: 2}, "n*load must be a multiple of k"},
		{Spec{Name: "heterogeneous-gradients", N: 8, K: 4, Load: 1, Groups: 8}, ""},
		{Spec{Name: "partial-gradients", N: 4, K: 6, Load: 3, Weight: 2}, "k must be a multiple of n"},
		{Spec{Name: "partial-gradients", N: 4, K: 8, Load: 2, Weight: 2}, "load-weight, a worker's own parts, must be at least 1 and below k/n"},
		{Spec{Name: "partial-gradients", N: 4, K: 8, Load: 4, Weight: 2}, "must be at least 1 and below k/n"},
		{Spec{Name: "partial-gradients", N: 4, K: 12, Load: 4, Weight: 3}, "must be 2 to n times k/n - (load-weight) = 2"},
		{Spec{Name: "partial-gradients", N: 4, K: 8, Load: 6, Weight: 5}, "must be 2 to n times"},
		{Spec{Name: "bernoulli-gradients", N: 4, K: 4, Load: 5, Seed: 1}, "weight, the parts of a worker's own group, must be at most load and at most k/groups = 4"},
		{Spec{Name: "block-gradients", N: 4, K: 6, Load: 2, Weight: 1, Groups: 4, Seed: 1}, "k must be a multiple of the number of groups, 4"},
		{Spec{Name: "block-gradients", N: 4, K: 6, Load: 2, Weight: 3, Groups: 2, Seed: 1}, "must be at most load"},
		{Spec{Name: "block-gradients", N: 4, K: 6, Load: 6, Weight: 1, Groups: 2, Seed: 1}, "must be at most k - k/groups = 3"},
	} {
		_, err := New(test.spec)
		if test.want == "" {
			if err != nil {
				t.Errorf("%v: %v", test.spec, err)
			}
			continue
		}
		if !errors.As(err, new(*SpecError)) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.spec, err, test.want)
		}
	}
}
