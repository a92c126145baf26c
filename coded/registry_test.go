package coded

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestFamilies: every family says what it is, and its codes say the same.
func TestFamilies(t *testing.T) {
	for _, f := range Families() {
		c, err := New(f.Examples[0])
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != f.Name || c.Doc() != f.Doc || c.Paper() != f.Paper || c.Kind() != f.Kind {
			t.Errorf("%s: the code is %q, %q, %q, %v", f.Name, c.Name(), c.Doc(), c.Paper(), c.Kind())
		}
		if f.Doc == "" || f.Paper == "" || strings.Contains(f.Doc, "\n") {
			t.Errorf("%s: doc %q, paper %q", f.Name, f.Doc, f.Paper)
		}
	}
	_, err := New(Spec{Name: "fountain", N: 6})
	if want := "no code fountain n=6: the names are " + strings.Join(Names(), ", "); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestRegister(t *testing.T) {
	define := func(Spec) (Definition, error) { return Definition{}, nil }
	example := []Spec{{Name: "new", N: 2}}
	for want, f := range map[string]Family{
		"no name":       {Define: define, Examples: example},
		"no definition": {Name: "new", Examples: example},
		"no example":    {Name: "new", Define: define},
		"another name":  {Name: "other", Define: define, Examples: example},
		"taken":         {Name: "uncoded", Define: define, Examples: []Spec{{Name: "uncoded", N: 2}}},
	} {
		before := len(Names())
		if err := Register(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if len(Names()) != before {
			t.Errorf("%s: it was registered", want)
		}
	}
}

func TestNewSizes(t *testing.T) {
	for _, want := range []struct {
		name            string
		n, k, threshold int
		mds             bool
		text            string
	}{
		{"trigonometric", 8, 6, 6, true, "trigonometric (8,6)"},
		{"replication", 6, 3, 5, false, "replication (6,3)"},
		{"replication", 6, 1, 1, true, "replication (6,1)"},
		{"uncoded", 5, 5, 5, true, "uncoded (5,5)"},
		{"trigonometric", MaxTasks, 2, 2, true, "trigonometric (4096,2)"},
	} {
		c := mustCode(t, want.name, want.n, want.k)
		if c.N() != want.n || c.K() != want.k || c.BBlocks() != 1 || c.Outputs() != want.k ||
			c.Threshold() != want.threshold || c.MDS() != want.mds || c.String() != want.text {
			t.Errorf("%s: n=%d, k=%d, %d B blocks, %d outputs, threshold %d, MDS %t, text %q", want.text,
				c.N(), c.K(), c.BBlocks(), c.Outputs(), c.Threshold(), c.MDS(), c)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "trigonometric", N: 3, K: 4}, "no code trigonometric n=3 k=4: n must be at least k"},
		{Spec{Name: "trigonometric", N: 3}, "no code trigonometric n=3: k must be at least 1"},
		{Spec{Name: "trigonometric", N: 3, K: -2}, "no code trigonometric n=3 k=-2: k must be at least 1"},
		{Spec{Name: "trigonometric", N: MaxTasks + 1, K: 4}, "no code trigonometric n=4097 k=4: n must be 1 to 4096"},
		{Spec{Name: "trigonometric", N: 3, K: 2, Batch: 2}, "no code trigonometric n=3 k=2 batch=2: the code has no use for batch"},
		{Spec{Name: "uncoded", N: 2, K: 2, Seed: 1 << 63}, "no code uncoded n=2 k=2 seed=9223372036854775808: the code has no use for a seed"},
		{Spec{Name: "replication", N: 6, K: 4}, "no code replication n=6 k=4: n must be a multiple of k"},
		{Spec{Name: "uncoded", N: 6, K: 4}, "no code uncoded n=6 k=4: n must equal k"},
	} {
		c, err := New(test.spec)
		var bad *SpecError
		if c != nil || !errors.As(err, &bad) || bad.Spec != test.spec || err.Error() != test.want {
			t.Errorf("%+v: error %v, want %s", test.spec, err, test.want)
		}
	}
}

// TestNewCodeErrors: a definition of the wrong form is refused, by an error that
// says where it is wrong.
func TestNewCodeErrors(t *testing.T) {
	ones := func(n int) []float64 { return slices.Repeat([]float64{1}, n) }
	good := func() Definition {
		return Definition{
			Name: "test", ABlocks: 2, BBlocks: 1, Threshold: 1,
			Tasks: []Task{{A: [][]float64{{1, 0}, {0, 1}}, B: [][]float64{{1}}}},
		}
	}
	if _, err := NewCode(good()); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for want, change := range map[string]func(*Definition){
		"has no name":                        func(d *Definition) { d.Name = "" },
		"0 A blocks and 1 B blocks":          func(d *Definition) { d.ABlocks = 0 },
		"2 A blocks and -1 B blocks":         func(d *Definition) { d.BBlocks = -1 },
		"0 tasks, want 1 to 4096":            func(d *Definition) { d.Tasks = nil },
		"at most 16777216 coefficients":      func(d *Definition) { d.ABlocks, d.BBlocks = 1<<13, 1<<12 },
		"threshold 2, want 1 to":             func(d *Definition) { d.Threshold = 2 },
		"threshold -1, want 1 to":            func(d *Definition) { d.Threshold = -1 },
		"task 0: no coded A block":           func(d *Definition) { d.Tasks[0].A = nil },
		"coded A block 1 has 3 coefficients": func(d *Definition) { d.Tasks[0].A[1] = ones(3) },
		"coded B block 0 has 2 coefficients": func(d *Definition) { d.Tasks[0].B[0] = ones(2) },
		"product of coded blocks (2,0)":      func(d *Definition) { d.Tasks[0].Results = []Output{{{2, 0}}} },
		"task 0: no result":                  func(d *Definition) { d.Tasks[0].Results = []Output{} },
		"task 0: result 0 is the sum of no":  func(d *Definition) { d.Tasks[0].Results = []Output{{}} },
		"MDS without a threshold":            func(d *Definition) { d.Threshold, d.MDS = 0, true },
		"3 pieces of 2 A blocks":             func(d *Definition) { d.Pieces = 3 },
		"output 1 is the sum of no product":  func(d *Definition) { d.Outputs = []Output{{{0, 0}}, {}} },
		"output 0: product of blocks (0,1)":  func(d *Definition) { d.Outputs = []Output{{{0, 1}}} },
		"no output":                          func(d *Definition) { d.Outputs = []Output{} },
		"coefficient NaN":                    func(d *Definition) { d.Tasks[0].A[0][0] = nan() },
	} {
		d := good()
		change(&d)
		if _, err := NewCode(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

// TestMatrix writes M and W out for blocks A_0, A_1 and B_0, B_1, B_2: the columns
// are A_0 B_0, A_0 B_1, .., A_1 B_2.
func TestMatrix(t *testing.T) {
	c, err := NewCode(Definition{
		Name: "test", ABlocks: 2, BBlocks: 3, Threshold: 2,
		Outputs: []Output{{{0, 2}, {1, 0}}, {{1, 2}, {1, 2}}},
		Tasks: []Task{
			{A: [][]float64{{1, 2}}, B: [][]float64{{3, 4, 5}, {0, 0, 1}}},
			{A: [][]float64{{1, 2}, {0, 1}}, B: [][]float64{{3, 4, 5}, {1, 1, 0}}, Results: []Output{{{1, 0}}, {{0, 1}, {0, 0}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, rows := range map[string][2][][]float64{
		"task 0": {c.Rows(0), {{3, 4, 5, 6, 8, 10}, {0, 0, 1, 0, 0, 2}}},
		"task 1": {c.Rows(1), {{0, 0, 0, 3, 4, 5}, {4, 5, 5, 8, 10, 10}}},
		"wanted": {c.Wanted(), {{0, 0, 1, 1, 0, 0}, {0, 0, 0, 0, 0, 2}}},
	} {
		if !slices.EqualFunc(rows[0], rows[1], slices.Equal[[]float64]) {
			t.Errorf("%s: rows %v, want %v", what, rows[0], rows[1])
		}
	}
	if c.String() != "test (2,2x3)" || c.BBlocks() != 3 || c.Outputs() != 2 {
		t.Errorf("%v with %d B blocks, %d outputs", c, c.BBlocks(), c.Outputs())
	}
}

// TestOneSided: only a linear job that wants its blocks has a generator.
func TestOneSided(t *testing.T) {
	c := mustCode(t, "trigonometric", 5, 3)
	g, err := c.Generator()
	if err != nil || len(g) != 5 || len(g[0]) != 3 || !slices.Equal(g[4], c.Row(4)) {
		t.Errorf("generator %v, error %v", g, err)
	}
	if c.Row(-1) != nil || c.Row(5) != nil {
		t.Error("a row of no slot")
	}
	unit := func() Definition {
		return Definition{
			Name: "test", ABlocks: 2, BBlocks: 1, Threshold: 2,
			Tasks: []Task{{A: [][]float64{{1, 0}}, B: [][]float64{{1}}}, {A: [][]float64{{0, 1}}, B: [][]float64{{1}}}},
		}
	}
	for what, change := range map[string]func(*Definition){
		"outputs in another order": func(d *Definition) { d.Outputs = []Output{{{1, 0}}, {{0, 0}}} },
		"a sum is wanted":          func(d *Definition) { d.Outputs = []Output{{{0, 0}, {1, 0}}} },
		"an output twice":          func(d *Definition) { d.Outputs = []Output{{{0, 0}, {0, 0}}, {{1, 0}}} },
		"two products in task 0":   func(d *Definition) { d.Tasks[0].A = [][]float64{{1, 0}, {1, 1}} },
		"two products in task 1":   func(d *Definition) { d.Tasks[1].A = [][]float64{{0, 1}, {1, 1}} },
	} {
		d := unit()
		change(&d)
		c, err := NewCode(d)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := c.Generator(); err == nil || c.Row(0) != nil {
			t.Errorf("%s: it has a generator", what)
		}
	}
	if _, err := mustTwoSided(t).Generator(); err == nil {
		t.Error("a code of two operands has a generator")
	}
}
