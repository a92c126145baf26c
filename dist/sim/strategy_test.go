package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
)

func code(t testing.TB, spec coded.Spec) *coded.Code {
	t.Helper()
	c, err := coded.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A code gives what the strategy of its kind gives, whether it counts or tracks.
func TestCodesAreStrategies(t *testing.T) {
	trig, repl := code(t, coded.Spec{Name: "trigonometric", N: 8, K: 6}), code(t, coded.Spec{Name: "replication", N: 8, K: 4})
	for _, c := range []struct {
		code *coded.Code
		got  Strategy
		want Strategy
	}{
		{trig, Coded{Code: trig}, MDS{6}},
		{trig, Coded{Code: trig, Chunks: 10}, Adaptive{6, 10}},
		{repl, Coded{Code: repl}, Replicated{2}},
	} {
		config := Config{Job: KOfN(8, c.code.K()), Model: Slow{By: ShiftedExp{1, 1}}, Seed: 1, Rounds: 50, Strategy: c.want}
		want := simulate(t, config)
		config.Strategy = c.got
		if got := simulate(t, config); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v and %s differ: mean %v and %v", c.code, c.got.Name(), c.want.Name(), got.Mean, want.Mean)
		}
	}
}

// Every registered code that decodes exactly runs to the end, with some straggler
// ahead of the time that all workers would need.
func TestEveryCodeRuns(t *testing.T) {
	for _, f := range coded.Families() {
		c := code(t, f.Examples[0])
		if c.Approximate() {
			if _, err := (Coded{Code: c}).Plan(KOfN(c.N(), 1)); err == nil || !strings.Contains(err.Error(), "never decodes exactly") {
				t.Errorf("%v: error %v, want that it never decodes exactly", c, err)
			}
			continue
		}
		for _, chunks := range []int{0, 3} {
			s := simulate(t, Config{Job: KOfN(c.N()+1, c.N()), Strategy: Coded{c, chunks}, Model: Slow{By: Pareto{1, 1}}, Seed: 2, Rounds: 5})
			if s.Failed > 0 || s.Mean <= 0 || s.Wasted < 0 || s.Wasted >= 1 {
				t.Errorf("%v in %d chunks: %+v", c, chunks, s)
			}
		}
	}
}

// The first results of a task count before it is finished.
func TestUnfinishedTasksCount(t *testing.T) {
	c, err := coded.NewCode(coded.Definition{
		Name: "crossed", ABlocks: 2, BBlocks: 1,
		Tasks: []coded.Task{
			{A: [][]float64{{1, 0}, {0, 1}}, B: [][]float64{{1}}},
			{A: [][]float64{{0, 1}, {1, 0}}, B: [][]float64{{1}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		slowness [2]float64
		want     float64
	}{{[2]float64{1, 1}, 1}, {[2]float64{1, 1.5}, 1.5}, {[2]float64{1, 9}, 2}} {
		if got := one(t, Config{Job: Job{Work: 2}, Strategy: Coded{Code: c}}, row.slowness[:]...); got.Time != row.want {
			t.Errorf("slowness %v: done at %v, want %v", row.slowness, got.Time, row.want)
		}
	}
}

// In chunks, a worker that works on after its first one still counts once in each.
func TestTrackedChunks(t *testing.T) {
	repl := code(t, coded.Spec{Name: "replication", N: 4, K: 2})
	// Workers 0 and 2 hold the same block: without 1 and 3 nothing ends.
	s := simulate(t, Config{Job: KOfN(4, 2), Strategy: Coded{repl, 6}, Model: Kill{[]int{1, 3}, 2}, Rounds: 2})
	if s.Failed != 1 || !(s.Rounds[0].Time >= 0.5 && s.Rounds[0].Time <= 1) {
		t.Errorf("%+v, want a first round of 0.5 to 1 and a second that never ends", s.Rounds)
	}
}

// The rule of package dist is as good as any of its kind, whoever is slow: those that
// repeat what may come at any moment, and those that wait for longer.
func TestSpeculationIsNoStrawMan(t *testing.T) {
	for _, spec := range []string{"none", "shifted-exp=1,1", "slow:1@x=5", "some:2@x=2", "pareto=1,2"} {
		c := Config{Job: KOfN(8, 6), Strategy: Speculative{}, Model: model(t, spec, 8), Seed: 1, Rounds: 400}
		chosen := simulate(t, c).Mean
		for _, quantile := range []float64{0, 0.25, 0.5, 0.75} {
			for _, multiple := range []float64{1, 1.05, 1.25, 1.5} {
				c.Strategy = Speculative{quantile, multiple}
				if other := simulate(t, c).Mean; chosen > 1.026*other {
					t.Errorf("%s: a round takes %.4f, by %+v %.4f", spec, chosen, c.Strategy, other)
				}
			}
		}
	}
}

func TestPlansAreRefused(t *testing.T) {
	trig := code(t, coded.Spec{Name: "trigonometric", N: 8, K: 6})
	for want, s := range map[string]Strategy{
		"strategy ignore: 4 of 4":                        Ignore{4},
		"strategy replicated: 3 copies":                  Replicated{3},
		"late at 1.5 times the median of a fraction 2":   Speculative{2, 1.5},
		"late at 0.5 times the median of a fraction 0.5": Speculative{0.5, 0.5},
		"strategy stealing: 0 chunks":                    Stealing{0},
		"strategy mds: k is 5":                           MDS{5},
		"strategy adaptive: k is 0":                      Adaptive{0, 3},
		"strategy adaptive: 100000000 chunks":            Adaptive{2, 1e8},
		"strategy partial: k is 5":                       Partial{5, 3},
		"strategy partial: -1 chunks":                    Partial{2, -1},
		"strategy rateless: overhead 0.5":                Rateless{0.5, 1, 10},
		"strategy rateless: 0 symbols":                   Rateless{0, 1, 0},
		"has 8 tasks, there are 4 workers":               Coded{Code: trig},
	} {
		if _, err := Run(t.Context(), Config{Job: KOfN(4, 2), Strategy: s, Rounds: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: error %v, want one with %q", s, err, want)
		}
	}
}

func TestConfigsAreRefused(t *testing.T) {
	_, err := Run(t.Context(), Config{Job: Job{Workers: -1, Work: -2}, Link: Link{Latency: -1}, Queue: -1})
	for _, want := range []string{"no strategy", "-1 workers", "0 rounds", "work -2", "link", "queue -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
