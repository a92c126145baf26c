package coded

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestEntangledPowers writes the powers of a small job out, and those of the codes
// that are special cases of it.
func TestEntangledPowers(t *testing.T) {
	x := intervalPoints(17)[3]
	for _, test := range []struct {
		spec Spec
		a, b []float64
	}{
		{Spec{Name: "entangled", N: 17, M: 2, P: 2, Q: 2}, []float64{0, 1, 2, 3}, []float64{1, 5, 0, 4}},
		{Spec{Name: "polynomial", N: 17, M: 3, Q: 2}, []float64{0, 1, 2}, []float64{0, 3}},
		{Spec{Name: "matdot", N: 17, P: 3}, []float64{0, 1, 2}, []float64{2, 1, 0}},
		{Spec{Name: "polydot", N: 17, M: 2, P: 2, Q: 2}, []float64{0, 2, 1, 3}, []float64{2, 8, 0, 6}},
	} {
		task := mustSpec(t, test.spec).Task(3)
		for side, want := range [][]float64{test.a, test.b} {
			got := [][]float64{task.A[0], task.B[0]}[side]
			for i, e := range want {
				if len(got) != len(want) || !near(got[i], math.Pow(x, e)) {
					t.Errorf("%v: side %d: %v, want the powers %v of %v", test.spec, side, got, want, x)
				}
			}
		}
	}
}

// TestEntangledSymmetric: with p = 2, m p q tasks that are symmetric decode, one
// less than any do.
func TestEntangledSymmetric(t *testing.T) {
	c := mustSpec(t, Spec{Name: "entangled", N: 12, M: 2, P: 2, Q: 2})
	for _, set := range [][]int{{0, 1, 2, 3, 8, 9, 10, 11}, {0, 2, 4, 5, 6, 7, 9, 11}} {
		tracker := NewTracker(c)
		for _, w := range set {
			tracker.Add(w)
		}
		if !tracker.Ready() || len(set) != c.Threshold()-1 {
			t.Errorf("tasks %v: ready is %t, the threshold %d", set, tracker.Ready(), c.Threshold())
		}
	}
}

// TestKhatriRaoSeed: the seed decides, and the search finds better coefficients
// than the first that are drawn.
func TestKhatriRaoSeed(t *testing.T) {
	s := Spec{Name: "random-khatri-rao", N: 11, M: 4, Q: 2, Seed: 5}
	c := mustSpec(t, s)
	if again := mustSpec(t, s); !slices.Equal(c.Rows(3)[0], again.Rows(3)[0]) {
		t.Error("the same seed gives other coefficients")
	}
	other := s
	other.Seed = 6
	if slices.Equal(c.Rows(3)[0], mustSpec(t, other).Rows(3)[0]) {
		t.Error("another seed gives the same coefficients")
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	first := khatriRaoTasks(field.Real{}, s, 0, func(size int) []float64 { return randomDirection(rng, size) })
	single, err := NewCode(Definition{Name: "first draw", ABlocks: 4, BBlocks: 2, Tasks: first, Threshold: 8})
	if err != nil {
		t.Fatal(err)
	}
	worst, _ := conditions(t, c)
	if one, _ := conditions(t, single); worst >= one {
		t.Errorf("worst condition number %.3g, of the first draw %.3g", worst, one)
	}
}

// TestRotationCondition: the condition number of a set is that of the same set of
// the trigonometric code.
func TestRotationCondition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range [][4]int{{11, 8, 8, 4}, {6, 4, 4, 4}, {9, 5, 2, 10}, {12, 6, 6, 4}} {
		n, k := test[0], test[1]
		c := mustSpec(t, Spec{Name: "rotation", N: n, M: test[2], Q: test[3]})
		line := mustCode(t, "trigonometric", n, k)
		if err := drawSubsets(n, k, 10, rng, func(set []int) error {
			if got, want := squareCondition(t, c, set), squareCondition(t, line, set); !within(got, want, 1+1e-9) {
				t.Errorf("%v: tasks %v: condition number %.12g, want %.12g", c, set, got, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCirculantRows writes a task out, and checks that every coded part is the sum
// or difference of one part of each block.
func TestCirculantRows(t *testing.T) {
	c := mustSpec(t, Spec{Name: "circulant", N: 8, K: 2})
	want := [][]float64{
		{1, 0, 0, 0, 0, -1, 0, 0}, {0, 1, 0, 0, 0, 0, -1, 0}, {0, 0, 1, 0, 0, 0, 0, -1}, {0, 0, 0, 1, 1, 0, 0, 0},
	}
	if got := c.Task(3).A; !slices.EqualFunc(got, want, slices.Equal[[]float64]) {
		t.Errorf("task 3 has %v, want %v", got, want)
	}
	c = mustSpec(t, Spec{Name: "circulant", N: 6, K: 4})
	for w := range c.N() {
		for _, row := range c.Task(w).A {
			for i := range 4 {
				if part := row[4*i : 4*i+4]; norm(part) != 1 || math.Abs(part[0]+part[1]+part[2]+part[3]) != 1 {
					t.Errorf("task %d: block %d has the coefficients %v", w, i, part)
				}
			}
		}
	}
}

// TestProductRow: a row of the grid with q results gives the row, so that a grid
// decodes by rows and columns; one that lacks a rectangle of least distance does not.
func TestProductRow(t *testing.T) {
	c := mustSpec(t, Spec{Name: "product", N: 12, M: 2, Q: 2, Groups: 3}) // 3 rows of 4
	for _, test := range []struct {
		set  []int
		want bool
	}{
		{[]int{0, 1, 6, 7}, true},                  // two in each of two rows
		{[]int{0, 1, 4, 10}, true},                 // row 0, then columns 0 and 2
		{[]int{0, 1, 2, 3}, false},                 // a row
		{[]int{0, 1, 2, 3, 7, 11}, false},          // lacks 2 x 3 tasks
		{[]int{0, 1, 2, 3, 7, 11, 6}, true},        // one of them
		{[]int{0, 4, 8, 1, 5, 9, 2, 6, 10}, true},  // three columns
		{[]int{0, 4, 8}, false}, {[]int{5}, false}, // a column; a task
	} {
		tracker := NewTracker(c)
		for _, w := range test.set {
			tracker.Add(w)
		}
		if tracker.Ready() != test.want {
			t.Errorf("tasks %v: ready is %t, want %t", test.set, tracker.Ready(), test.want)
		}
	}
}

// TestBivariatePrefix tries every pattern of unfinished work of small codes in exact
// arithmetic; and shows that neither may the load fail to divide m nor may the
// products be made in any order.
func TestBivariatePrefix(t *testing.T) {
	for _, s := range []Spec{
		{Name: "bivariate", N: 5, M: 4, Q: 2, Load: 2}, {Name: "bivariate", N: 6, M: 4, Q: 3, Load: 2},
		{Name: "bivariate", N: 4, M: 3, Q: 3, Load: 3}, {Name: "bivariate", N: 7, M: 2, Q: 3, Load: 1},
	} {
		if stuck := stuckPattern(t, mustSpec(t, s).def); stuck != nil {
			t.Errorf("%v: the first %v results do not decode", s, stuck)
		}
	}
	uneven := bivariateModular(Spec{N: 5, M: 3, Q: 2, Load: 2})
	if stuckPattern(t, uneven) == nil {
		t.Error("load 2 and m = 3: every pattern decodes")
	}
	otherOrder := bivariateModular(Spec{N: 5, M: 2, Q: 3, Load: 2})
	modular := otherOrder.Modular
	otherOrder.Modular = func(p field.Prime) ([]ModularTask, error) {
		tasks, err := modular(p)
		for w := range tasks {
			tasks[w].Results = []Output{{{0, 0}}, {{0, 1}}, {{1, 0}}, {{1, 1}}}
		}
		return tasks, err
	}
	if stuckPattern(t, otherOrder) == nil {
		t.Error("each coded A block with all of B: every pattern decodes")
	}
}

// bivariateModular is a definition that the family may refuse.
func bivariateModular(s Spec) Definition {
	rng := rand.New(rand.NewPCG(7, 8))
	d := Definition{Name: "test", ABlocks: s.M, BBlocks: s.Q, Prefix: s.M * s.Q}
	d.Tasks = bivariateTasks(field.Real{}, s, scatteredPoints(s, rng), scatteredPoints(s, rng))
	d.Modular = func(p field.Prime) ([]ModularTask, error) {
		count := s.N * s.Load
		return bivariateTasks(p, s, randomElements(rng, p, count), randomElements(rng, p, count)), nil
	}
	return d
}

// stuckPattern looks for numbers of first results, Prefix in all, that do not
// decode; nil if there are none.
func stuckPattern(t *testing.T, d Definition) []int {
	t.Helper()
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := c.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	exact, err := NewExactTracker(chunks)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, c.N())
	var search func(w, left int) []int
	search = func(w, left int) []int {
		if w == c.N() {
			if left > 0 {
				return nil
			}
			exact.Reset()
			for task, count := range counts {
				for i := range count {
					exact.Add(c.Chunk(task, i))
				}
			}
			if exact.Ready() {
				return nil
			}
			return slices.Clone(counts)
		}
		for counts[w] = min(left, c.Results(w)); counts[w] >= 0; counts[w]-- {
			if stuck := search(w+1, left-counts[w]); stuck != nil {
				return stuck
			}
		}
		counts[w] = 0
		return nil
	}
	return search(0, d.Prefix)
}
