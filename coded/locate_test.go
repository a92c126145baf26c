package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// answers gives what all tasks of a code answer for random blocks: coded blocks of
// a linear job, or their products with those of B, of size x size.
func answers(t testing.TB, c *Code, rng *rand.Rand, size int) []TaskResults {
	t.Helper()
	a, b := make([]Tensor, c.K()), make([]Tensor, c.BBlocks())
	for i := range a {
		a[i] = normalMatrix(rng, size, size)
	}
	for i := range b {
		b[i] = normalMatrix(rng, size, size)
	}
	encode := func(row []float64, blocks []Tensor) Tensor {
		x := NewTensor(size, size)
		if err := Encode(x, row, blocks); err != nil {
			t.Fatal(err)
		}
		return x
	}
	given := make([]TaskResults, c.N())
	for task := range given {
		given[task].Task = task
		for _, products := range c.Task(task).Products() {
			sum := NewTensor(size, size)
			for _, p := range products {
				y := honest(FX, encode(c.Task(task).A[p.A], a), encode(c.Task(task).B[p.B], b))
				for i, v := range y.Data {
					sum.Data[i] += v
				}
			}
			given[task].Results = append(given[task].Results, sum)
		}
	}
	return given
}

// lied gives the same answers but for those of some tasks.
func lied(given []TaskResults, liars []int, lie func(task int, x Tensor)) []TaskResults {
	out := slices.Clone(given)
	for _, w := range liars {
		i := slices.IndexFunc(out, func(r TaskResults) bool { return r.Task == w })
		out[i].Results = nil
		for _, x := range given[i].Results {
			y := Tensor{slices.Clone(x.Shape), slices.Clone(x.Data)}
			lie(w, y)
			out[i].Results = append(out[i].Results, y)
		}
	}
	return out
}

func TestHonestResultsAgree(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "trigonometric", N: 8, K: 6}, {Name: "trigonometric", N: 31, K: 28}, {Name: "chebyshev", N: 12, K: 5},
		{Name: "replication", N: 6, K: 2}, {Name: "rotation", N: 12, M: 4, Q: 2}, {Name: "polynomial", N: 12, M: 2, Q: 3},
	} {
		c, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		given := answers(t, c, rand.New(rand.NewPCG(1, 2)), 20)
		loc, err := c.Locate(given, DefaultTolerance/5)
		if err != nil || loc.Wrong != nil || loc.Spare < 1 || loc.Unchecked != nil {
			t.Errorf("%v: %+v, error %v", spec, loc, err)
		}
	}
}

// TestUnrelatedLies: any n-k-1 liars that do not conspire are found, whatever they do
// (those who change one entry change different ones).
func TestUnrelatedLies(t *testing.T) {
	c := mustCode(t, "trigonometric", 7, 4)
	for name, lie := range lies {
		rng := rand.New(rand.NewPCG(3, 4))
		given, earlier := answers(t, c, rng, 8), answers(t, c, rng, 8)
		for size := 1; size <= 2; size++ {
			err := eachSubset(7, size, func(liars []int) error {
				bad := lied(given, liars, func(task int, x Tensor) {
					lie(rng, x, func() Tensor { return earlier[task].Results[0] })
				})
				loc, err := c.Locate(bad, 0)
				if err != nil || !slices.Equal(loc.Wrong, liars) || loc.Spare != 3-size && name != "NaN" && name != "infinite" {
					t.Errorf("%s by %v: %+v, error %v", name, liars, loc, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func addNoise(rng *rand.Rand, scale float32) func(int, Tensor) {
	return func(_ int, x Tensor) {
		for i := range x.Data {
			x.Data[i] += scale * float32(rng.NormFloat64())
		}
	}
}

// TestTooManyLies: where the results do not say who lied, Locate says so.
func TestTooManyLies(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, test := range []struct{ n, k, liars int }{{6, 4, 2}, {6, 4, 3}, {5, 4, 1}, {9, 6, 3}, {9, 6, 5}} {
		c := mustCode(t, "trigonometric", test.n, test.k)
		bad := lied(answers(t, c, rng, 6), rng.Perm(test.n)[:test.liars], addNoise(rng, 1))
		loc, err := c.Locate(bad, 0)
		var unknown *LocateError
		if loc != nil || !errors.As(err, &unknown) || unknown.Spare != test.n-test.k || len(unknown.Sets) != 2 || len(unknown.Have) != test.n {
			t.Errorf("%+v: %+v, error %v", test, loc, err)
		}
	}
	// Of two copies, either may be right.
	copies := mustCode(t, "replication", 4, 2)
	_, err := copies.Locate(lied(answers(t, copies, rng, 3), []int{1}, addNoise(rng, 1)), 0)
	want := "replication (4,2): results of tasks [0 1 2 3] contradict each other: with 2 spare ones, tasks [1] may be wrong, or [3]"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestConspiracies: what liars add is a multiple of one and the same block, so that
// the errors have rank 1; 2e < s + 1 of them are found.
func TestConspiracies(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	c := mustCode(t, "trigonometric", 9, 5)
	given, block := answers(t, c, rng, 6), normalMatrix(rng, 6, 6)
	err := eachSubset(9, 2, func(liars []int) error {
		bad := lied(given, liars, func(task int, x Tensor) {
			for i, v := range block.Data {
				x.Data[i] += float32(task+1) * v
			}
		})
		if loc, err := c.Locate(bad, 0); err != nil || !slices.Equal(loc.Wrong, liars) {
			t.Errorf("%v: %+v, error %v", liars, loc, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLiesOfAllSizes: a huge lie does not hide a small one.
func TestLiesOfAllSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	c := mustCode(t, "trigonometric", 10, 5)
	bad := lied(answers(t, c, rng, 6), []int{1, 4, 8}, func(task int, x Tensor) {
		switch task {
		case 1:
			x.Data[3] = 3e38
		case 4:
			addNoise(rng, 1e12)(task, x)
		case 8:
			x.Data[20] += 0.05
		}
	})
	loc, err := c.Locate(bad, 0)
	if err != nil || !slices.Equal(loc.Wrong, []int{1, 4, 8}) || loc.Spare != 2 {
		t.Errorf("%+v, error %v", loc, err)
	}
}

// TestManyLies: more sets than can be tried one after another.
func TestManyLies(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	c := mustCode(t, "chebyshev", 40, 28)
	given := answers(t, c, rng, 12)
	for _, count := range []int{4, 8, 11} {
		liars := slices.Sorted(slices.Values(rng.Perm(40)[:count]))
		loc, err := c.Locate(lied(given, liars, addNoise(rng, 1)), 0)
		if err != nil || !slices.Equal(loc.Wrong, liars) {
			t.Errorf("%v: %+v, error %v", liars, loc, err)
		}
	}
	var unknown *LocateError
	if _, err := c.Locate(lied(given, rng.Perm(40)[:14], addNoise(rng, 1)), 0); !errors.As(err, &unknown) {
		t.Errorf("14 liars with 12 to spare: %v", err)
	}
}

// TestManyElements: lies in few elements of long results, in different blocks of them.
func TestManyElements(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	c := mustCode(t, "trigonometric", 6, 2)
	given := answers(t, c, rng, 110) // 12,100 elements
	bad := lied(given, []int{0, 3, 5}, func(task int, x Tensor) { x.Data[2000*task+17] += 0.5 })
	loc, err := c.Locate(bad, 0)
	if err != nil || !slices.Equal(loc.Wrong, []int{0, 3, 5}) {
		t.Errorf("%+v, error %v", loc, err)
	}
}

// TestTasksOfSeveralResults: a task lies in one of its results.
func TestTasksOfSeveralResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	c, err := New(Spec{Name: "rotation", N: 9, M: 4, Q: 4})
	if err != nil {
		t.Fatal(err)
	}
	if c.Results(0) < 2 {
		t.Fatalf("%v has one result a task", c)
	}
	given := answers(t, c, rng, 5)
	for liar := range c.N() {
		bad := lied(given, []int{liar}, func(int, Tensor) {})
		addNoise(rng, 1)(0, bad[liar].Results[1])
		loc, err := c.Locate(bad, 0)
		if err != nil || !slices.Equal(loc.Wrong, []int{liar}) {
			t.Errorf("task %d: %+v, error %v", liar, loc, err)
		}
	}
}

// TestNothingToSpare: what cannot be checked is said to be unchecked.
func TestNothingToSpare(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	c := mustCode(t, "trigonometric", 6, 4)
	given := answers(t, c, rng, 3)
	for _, have := range [][]int{{}, {2}, {0, 2, 3, 5}} {
		var some []TaskResults
		for _, task := range have {
			some = append(some, given[task])
		}
		loc, err := c.Locate(lied(some, have, addNoise(rng, 1)), 0)
		if err != nil || loc.Wrong != nil || loc.Spare != 0 || !slices.Equal(loc.Unchecked, have) {
			t.Errorf("tasks %v: %+v, error %v", have, loc, err)
		}
	}
	// Block 1 has one copy left, block 0 three.
	copies := mustCode(t, "replication", 6, 2)
	given = answers(t, copies, rng, 3)
	loc, err := copies.Locate(lied([]TaskResults{given[0], given[2], given[4], given[3]}, []int{2}, addNoise(rng, 1)), 0)
	if err != nil || !slices.Equal(loc.Wrong, []int{2}) || loc.Spare != 1 || !slices.Equal(loc.Unchecked, []int{3}) {
		t.Errorf("%+v, error %v", loc, err)
	}
}

// TestScreenSpares decodes what liars answered with others.
func TestScreenSpares(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	c := mustCode(t, "trigonometric", 8, 4)
	given := answers(t, c, rng, 4)
	decoder := NewDecoder(c, DecoderConfig{})
	decode := func(s *Screened) []float32 {
		y := NewTensor(16, 4)
		if err := DecodeRows(y, s.Weights.D, s.Results, Blocks(16, 4), 0); err != nil {
			t.Fatal(err)
		}
		return y.Data
	}
	all, err := decoder.ScreenSpares(given, 0)
	if err != nil || all.Rejected != nil || len(all.Results) != 8 || all.Unchecked != nil {
		t.Fatalf("%+v, error %v", all, err)
	}
	bad := lied(given, []int{0, 5, 6}, addNoise(rng, 2))
	bad[5].Results[0].Data[1] = float32(math.NaN())
	slices.Reverse(bad)
	s, err := decoder.ScreenSpares(bad, 0)
	if err != nil || !slices.Equal(s.Weights.Have, []int{1, 2, 3, 4, 7}) || len(s.Rejected) != 3 {
		t.Fatalf("%+v, error %v", s, err)
	}
	if !errors.As(s.Rejected[0].Err, new(*ContradictionError)) || !errors.As(s.Rejected[1].Err, new(*ResultError)) || s.Rejected[2].Task != 6 {
		t.Errorf("rejected %v", s.Rejected)
	}
	want := decode(all)
	for i, v := range decode(s) {
		if math.Abs(float64(v-want[i])) > 1e-4 {
			t.Fatalf("element %d is %g, want %g", i, v, want[i])
		}
	}
	var unknown *LocateError
	if s, err := decoder.ScreenSpares(lied(given, []int{0, 1, 2, 3}, addNoise(rng, 1)), 0); s != nil || !errors.As(err, &unknown) {
		t.Errorf("four liars: %+v, error %v", s, err)
	}
}

func TestLocateErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	c := mustCode(t, "trigonometric", 4, 2)
	given := answers(t, c, rng, 3)
	with := func(change func(r []TaskResults)) []TaskResults {
		out := lied(given, []int{0, 1, 2, 3}, func(int, Tensor) {})
		change(out)
		return out
	}
	for want, test := range map[string]struct {
		given     []TaskResults
		tolerance float64
		typed     any
	}{
		"tolerance -1, want":                   {given, -1, nil},
		"tolerance NaN, want":                  {given, math.NaN(), nil},
		"task 3 is listed twice":               {with(func(r []TaskResults) { r[0].Task = 3 }), 0, new(*TaskError)},
		"task 4, want 0 to 3":                  {with(func(r []TaskResults) { r[2].Task = 4 }), 0, new(*TaskError)},
		"task -9, want 0 to 3":                 {with(func(r []TaskResults) { r[2].Task = -9 }), 0, new(*TaskError)},
		"locate: task 2: 0 results, want 1":    {with(func(r []TaskResults) { r[2].Results = nil }), 0, nil},
		"locate: task 0: 0 results, want 1":    {with(func(r []TaskResults) { r[0].Results = nil }), 0, nil},
		"task 3: result 0 has shape [9], want": {with(func(r []TaskResults) { r[3].Results[0].Shape = []int{9} }), 0, new(*ShapeError)},
		"task 0: result 0 has 9 elements":      {with(func(r []TaskResults) { r[0].Results[0].Shape = []int{3, -3} }), 0, new(*ShapeError)},
	} {
		loc, err := c.Locate(test.given, test.tolerance)
		if loc != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if test.typed != nil && !errors.As(err, test.typed) {
			t.Errorf("%v is no %T", err, test.typed)
		}
		if _, again := NewDecoder(c, DecoderConfig{}).ScreenSpares(test.given, test.tolerance); again == nil || again.Error() != err.Error() {
			t.Errorf("screened: %v, want %v", again, err)
		}
	}
}
