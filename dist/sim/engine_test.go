package sim

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// one runs a single round in which worker w takes slowness[w] per shard.
func one(t testing.TB, c Config, slowness ...float64) Round {
	t.Helper()
	var m Together
	for w, x := range slowness {
		m = append(m, Slow{[]int{w}, Constant{x}})
	}
	c.Model, c.Rounds, c.Job.Workers = m, 1, len(slowness)
	return simulate(t, c).Rounds[0]
}

// Times that can be worked out by hand; all numbers are exact in binary.
func TestRoundsByHand(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		config   Config
		slowness []float64
		want     Round
	}{
		"a message there, the operand, the work, the result, a message back": {
			Config{Job: Job{Work: 2, Held: 2}, Strategy: Local{}, Link: Link{Latency: 0.25, Operand: 0.5, Result: 0.125}},
			[]float64{1}, Round{0.25 + 0.5 + 2 + 0.25 + 0.25, 2, 2, 2},
		},
		"every chunk waits for its message": {
			Config{Job: Job{Work: 1}, Strategy: Partial{1, 4}, Link: Link{Latency: 0.25}},
			[]float64{1}, Round{4 * 0.75, 1, 1, 1},
		},
		"a queue of two hides some of it": {
			Config{Job: Job{Work: 1}, Strategy: Partial{1, 4}, Link: Link{Latency: 0.25}, Queue: 2},
			[]float64{1}, Round{1.75, 1, 1, 1},
		},
		"a queue of all chunks hides all but one": {
			Config{Job: Job{Work: 1}, Strategy: Partial{1, 4}, Link: Link{Latency: 0.25}, Queue: 4},
			[]float64{1}, Round{1.5, 1, 1, 1},
		},
		"the link passes one result at a time": {
			Config{Job: Job{Work: 1}, Strategy: Partial{1, 4}, Link: Link{Result: 2}, Queue: 4},
			[]float64{1}, Round{0.25 + 4*0.5, 1, 1, 1},
		},
		"the coordinator gives out one operand after another, and takes the answers so": {
			Config{Job: Job{Work: 2}, Strategy: Uncoded{}, Link: Link{Message: 0.25, Latency: 0.125}},
			[]float64{1, 1}, Round{2*0.25 + 0.125 + 1 + 0.125 + 0.25, 1, 2, 2},
		},
		"answers that come together wait for each other": {
			Config{Job: Job{Work: 4}, Strategy: Uncoded{}, Link: Link{Message: 0.25}},
			[]float64{1.75, 1.5, 1.25, 1}, Round{4*0.25 + 1 + 4*0.25, 1.75, 4, 4},
		},
		"and workers go on meanwhile": {
			Config{Job: Job{Work: 1}, Strategy: Partial{1, 4}, Link: Link{Message: 1}, Queue: 4},
			[]float64{1}, Round{1 + 0.25 + 4, 1, 1, 1},
		},
		"of two the faster answers": {
			Config{Job: Job{Work: 1}, Strategy: MDS{1}},
			[]float64{1, 4}, Round{1, 0.8, 1.25, 1},
		},
		"the slower one's chunk is doubled when nothing else is left": {
			Config{Job: Job{Work: 1}, Strategy: Adaptive{1, 2}, Queue: 2},
			[]float64{1, 8}, Round{1, 8. / 9, 1.125, 1},
		},
		"uncoded waits for everyone": {
			Config{Job: Job{Work: 2}, Strategy: Uncoded{}},
			[]float64{1, 4}, Round{4, 4, 2, 2},
		},
		"or for all but one": {
			Config{Job: Job{Work: 2}, Strategy: Ignore{1}},
			[]float64{1, 4}, Round{1, 4, 1.25, 1},
		},
		"a part is relaunched after three quarters": {
			Config{Job: Job{Work: 4}, Strategy: Speculative{Quantile: 0.75, Multiple: 1}},
			[]float64{1, 1, 1, 8}, Round{2, 8, 3 + 1 + 0.25, 4}, // by one who is idle
		},
		"and later, if it might come": {
			Config{Job: Job{Work: 4}, Strategy: Speculative{Quantile: 0.75, Multiple: 1.5}},
			[]float64{1, 1, 1, 8}, Round{2.5, 8, 3 + 1 + 2.5/8, 4},
		},
		// Worker 0 repeats part 1 from 1 to 2, part 2 until 3 and part 3, which worker 1 has
		// begun at 2, until 4; who is called off does not go on.
		"who is called off gives up": {
			Config{Job: Job{Work: 4}, Strategy: Speculative{Quantile: 0.25, Multiple: 1}},
			[]float64{1, 3, 8, 8}, Round{4, 8, 4 + (2+2)/3. + 3/8. + 4/8., 4},
		},
		"when it hears of it": {
			Config{Job: Job{Work: 4}, Strategy: Speculative{Quantile: 0.25, Multiple: 1}, Link: Link{Latency: 0.125}},
			[]float64{1, 3, 8, 8}, Round{5, 8, 4 + (2.5+2.375)/3 + 3.75/8 + 4.875/8, 4},
		},
		"who is dead is not waited for": {
			Config{Job: Job{Work: 1}, Strategy: Stealing{4}},
			[]float64{1, 1e6}, Round{1, 1 / (1 + 1e-6), 1 + 1e-6, 1},
		},
	} {
		got := one(t, c.config, c.slowness...)
		near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-12 }
		if got.Time != c.want.Time || !near(got.Ideal, c.want.Ideal) || !near(got.Spent, c.want.Spent) || got.Used != c.want.Used {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	dead := simulate(t, Config{Job: KOfN(3, 2), Strategy: MDS{2}, Model: Kill{[]int{0, 1}, 2}, Rounds: 3})
	if dead.Failed != 2 || dead.Mean != 1 || dead.Rounds[1].Time != inf || dead.Rounds[2].Used != 0 || dead.Wasted == 0 {
		t.Errorf("two of three are killed before round 2: %+v", dead)
	}
	if gone := simulate(t, Config{Job: KOfN(1, 1), Strategy: Local{}, Model: Kill{nil, 1}, Rounds: 1}); gone.Failed != 1 || gone.Mean != inf {
		t.Errorf("nobody is there: %+v", gone)
	}
}

// A chunk that is called off before its worker begins it is not done.
func TestCallingOff(t *testing.T) {
	// Worker 1 is given chunks 1 and 0; worker 0 has done chunk 0 at 0.5.
	c := Config{Job: Job{Work: 1}, Strategy: Adaptive{1, 2}, Queue: 2}
	if got := one(t, c, 1, 1.5); got.Time != 0.75 || got.Spent != 1+0.25 {
		t.Errorf("without latency: %+v, want 0.75 and 1.25 shards spent", got)
	}
}

func TestEventsComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q events
		var want []event
		sorted := func() {
			slices.SortFunc(want, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.worker, b.worker)) })
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "operations") {
			e := event{float64(rapid.IntRange(0, 5).Draw(t, "at")), int32(i)}
			switch op := rapid.IntRange(0, 3).Draw(t, "operation"); {
			case op < 2 || len(q) == 0:
				q.push(e)
				want = append(want, e)
			case op == 2:
				q.pop()
				want = want[1:]
			default:
				q.replace(e)
				want[0] = e
			}
			sorted()
			if len(q) != len(want) || len(q) > 0 && q[0] != want[0] {
				t.Fatalf("%v, want %v first", q, want)
			}
		}
	})
}
