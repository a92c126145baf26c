package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/nn/shard"
)

// Worker 1 of 2 is frozen from 7 to 12 ideal rounds, worker 2 20 later, and so
// on; an ideal round takes half of a share's time here.
func TestFreezes(t *testing.T) {
	began := time.Unix(1e9, 0)
	const unit = 2 * time.Second
	f := &freezer{began: began, ideal: unit / 2, workers: 2}
	inf := math.Inf(1)
	for _, c := range []struct {
		worker int
		after  time.Duration
		want   []sim.Pace // before what follows later
	}{
		{0, 0, []sim.Pace{{Slowness: 1, Changes: []sim.Change{{At: 3.5, Slowness: inf}, {At: 6, Slowness: 1}}}}},
		{0, 9 * time.Second, []sim.Pace{{Slowness: inf, Changes: []sim.Change{{At: 1.5, Slowness: 1}}}}},
		{1, 12 * time.Second, []sim.Pace{{Slowness: 1, Changes: []sim.Change{{At: 7.5, Slowness: inf}, {At: 10, Slowness: 1}}}}},
		{1, 30 * time.Second, []sim.Pace{{Slowness: inf, Changes: []sim.Change{{At: 1, Slowness: 1}}}}},
	} {
		got := f.pace(c.worker, began.Add(c.after), unit)
		want := c.want[0]
		if got.Slowness != want.Slowness || len(got.Changes) < len(want.Changes) || !slices.Equal(got.Changes[:len(want.Changes)], want.Changes) {
			t.Errorf("worker %d after %v: %+v, want %+v first", c.worker+1, c.after, got, want)
		}
	}
}

// What a worker is told to follow is what the benchmark takes for its speed.
func TestWorkersFollowATrace(t *testing.T) {
	r := &roundBench{b: &benchCmd{Workers: 3, simFlags: simFlags{Seed: 7}}, rounds: 4}
	for _, spec := range []string{"pareto=1,2", "slow:2@x=3", defaultFreeze} {
		c, err := newRoundCase(spec, 3)
		if err != nil {
			t.Fatal(err)
		}
		r.cases = append(r.cases, c)
	}
	path := filepath.Join(t.TempDir(), "slow.csv")
	if err := r.writeSlowness(path); err != nil {
		t.Fatal(err)
	}
	m, err := newMisbehaviour(workerFaults{Slow: "trace=" + path + ",worker=2"})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.cases {
		for round := 1; round <= r.rounds; round++ {
			want := c.drawn(3, 7, round)[1].Slowness
			if got := m.slowness(dist.ProductInfo{Step: i*r.rounds + round}); got != want {
				t.Errorf("%s, round %d: worker 2 is slowed by %v, want %v", c.spec, round, got, want)
			}
		}
	}
	for want, how := range map[string]string{
		"want trace=FILE,worker=N": "trace=" + path,
		"there is no worker 4":     "trace=" + path + ",worker=4",
		"no such file":             "trace=" + path + "x,worker=1",
	} {
		if _, err := newMisbehaviour(workerFaults{Slow: how}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--slow %s: error %v, want one with %q", how, err, want)
		}
	}
}

func TestRoundCasesAreRefused(t *testing.T) {
	for want, spec := range map[string]string{
		"one speed for a round": "delay:*@x=1",
		"unknown":               "nonsense",
	} {
		if _, err := newRoundCase(spec, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", spec, err, want)
		}
	}
	b := &benchCmd{Workers: 2 * maxJoint, K: maxJoint, simFlags: simFlags{Strategy: []string{"rateless"}}}
	if err := benchRound(t.Context(), b, nil); !errors.As(err, new(usageError)) {
		t.Errorf("rateless over %d processes: error %v, want one of usage", b.Workers, err)
	}
}

// Every strategy of the simulator has its equal over processes, whose layer has the
// chunks and the code of what is simulated beside it.
func TestStrategiesOverSockets(t *testing.T) {
	b := &benchCmd{Workers: 8, K: 6}
	r := &roundBench{b: b, config: shard.LinearConfig{In: 64, Out: 384}}
	var joint []string
	for _, s := range b.strategies([]int{4}) {
		p, err := r.product("p", s, 4)
		if err != nil {
			t.Errorf("%s: %v", s.Name(), err)
			continue
		}
		if plan, err := p.twin.Plan(sim.KOfN(8, 6)); err != nil || len(plan.Load) != 8 {
			t.Errorf("%s: plan %+v, error %v", s.Name(), plan, err)
		}
		if p.scheduling == dist.Joint {
			joint = append(joint, s.Name())
			if p.layer.Kind != shard.KindStacked || p.layer.ByBatch || p.layer.Chunks != p.decoder.Code().Results(0) {
				t.Errorf("%s: layer %+v", s.Name(), p.layer)
			}
		}
	}
	if want := []string{"partial", "hierarchical", "rateless"}; !slices.Equal(joint, want) {
		t.Errorf("all results together decode those of %v, want %v", joint, want)
	}
	if _, known := overSockets(sim.Stealing{Chunks: 4}, 8, 6, 4); known {
		t.Error("stealing is known, of which there is none over processes")
	}
}

// A run of a trace can be chosen.
func TestStragglerOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	const trace = "# coda-trace 1\nrun,round,worker,from_s,load,compute_s,comm_s\n1,1,1,0,1,2,0\n2,1,1,0,1,4,0\n"
	if err := os.WriteFile(path, []byte(trace), 0o644); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]float64{"trace=" + path: 2, "trace=" + path + ",run=2": 4} {
		m, err := parseStraggler(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := sim.Paces(m, 1, 0, 1)[0].Slowness; got != want {
			t.Errorf("%s: slowness %v, want %v", spec, got, want)
		}
	}
	if _, err := parseStraggler("trace="+path+",run=x", 1); err == nil || !strings.Contains(err.Error(), `run "x"`) {
		t.Errorf("error %v, want one about the run", err)
	}
}
