package sim

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func paces(m Model, n int, seed uint64, round int) []Pace {
	p := make([]Pace, n)
	draw(p, m, seed, round)
	return p
}

var specs = []string{
	"slow:*@shifted-exp=1,1", "slow:1+3@x=4", "delay:*@exp=0.5", "shared:*@pareto=1,2", "some:2@x=2",
	"burst:*@enter=0.1,leave=0.3,x=5", "preempt:*@leave=0.1,back=0.3", "fail:*@p=0.05", "kill:2@step=3",
	"slow:*@weibull=1,0.5,0.7;delay:2@lognormal=1,3;preempt:*@leave=0.2,back=0.5",
}

// A model's paces depend on the seed and the round alone, in whatever order they
// are asked for; another seed gives others, if anything is drawn.
func TestModelsHaveNoState(t *testing.T) {
	const n, rounds = 6, 30
	for _, spec := range specs {
		m := model(t, spec, n)
		var all [][]Pace
		for r := 1; r <= rounds; r++ {
			all = append(all, paces(m, n, 9, r))
		}
		differs := false
		for _, r := range slices.Backward(all) {
			round := len(all)
			all = all[:round-1]
			if !reflect.DeepEqual(paces(m, n, 9, round), r) {
				t.Fatalf("%s: round %d differs when it is asked for again", spec, round)
			}
			differs = differs || !reflect.DeepEqual(paces(m, n, 10, round), r)
		}
		if fixed := strings.HasPrefix(spec, "kill") || strings.Contains(spec, "1+3@x=4"); differs == fixed {
			t.Errorf("%s: paces of another seed differ: %v", spec, differs)
		}
	}
}

func TestModelsAreReadAsWritten(t *testing.T) {
	for _, spec := range append([]string{"none"}, specs...) {
		m := model(t, spec, 6)
		if got := m.String(); got != spec {
			t.Errorf("%s is written %s", spec, got)
		}
		if again := model(t, m.String(), 6); !reflect.DeepEqual(again, m) {
			t.Errorf("%s is read as %#v and %#v", spec, m, again)
		}
	}
	if got := model(t, "pareto=1,2", 4); !reflect.DeepEqual(got, Slow{By: Pareto{1, 2}}) {
		t.Errorf("a distribution alone is read as %#v", got)
	}
}

func TestParseModelRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                "unknown slowdown",
		"slow":                            "unknown slowdown",
		"slow:1":                          "WHAT:WHO@WHEN",
		"melt:1@x=1":                      `unknown model "melt"`,
		"slow:7@x=2":                      "number from 1 to 6",
		"slow:0@x=2":                      "number from 1 to 6",
		"slow:a+1@x=2":                    "number from 1 to 6",
		"some:7@x=2":                      "number of workers from 1 to 6",
		"some:*@x=2":                      "number of workers from 1 to 6",
		"burst:*@enter=0.1,leave=0.2":     "x is missing",
		"burst:*@enter=2,leave=0.2,x=2":   "at most 1 each",
		"burst:*@enter=1,leave=1,x=2":     "sum of 0.0001 to 1.9999",
		"preempt:*@leave=0.1,leave=0.2":   "given twice",
		"preempt:*@leave=0.1,return=0.2":  "unknown parameter",
		"fail:*@p=1":                      "less than 1",
		"fail:*@p=-1":                     "not a positive number",
		"kill:1@step=1.5":                 "whole number",
		"slow:1@x=2;boil:2@x=1;slow:9@x=": "boil",
	} {
		if _, err := ParseModel(spec, 6); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", spec, err, want)
		}
	}
	_, err := ParseModel("slow:1@x=2;boil:2@x=1;slow:9@x=2", 6)
	if strings.Count(err.Error(), "sim: model") != 2 {
		t.Errorf("error %v, want both problems", err)
	}
}

// The chain spends enter/(enter+leave) of the time in its second state, and its
// runs there last 1/leave rounds; also where rounds swap the states.
func TestChain(t *testing.T) {
	for _, p := range [][2]float64{{0.1, 0.3}, {0.02, 0.05}, {0.8, 0.6}, {1, 0.5}} {
		const n = 40000
		enter, leave := p[0], p[1]
		var in, left, entered int
		for r := range n {
			a, b := chain(3, r, 1, enter, leave), chain(3, r+1, 1, enter, leave)
			switch {
			case a && !b:
				left++
			case !a && b:
				entered++
			}
			if a {
				in++
			}
		}
		check := func(what string, got, of int, want float64) {
			if got := float64(got) / float64(of); math.Abs(got-want) > 6*math.Sqrt(want*(1-want)/float64(of)) {
				t.Errorf("enter %v, leave %v: %s with probability %.4f, want %.4f", enter, leave, what, got, want)
			}
		}
		check("left", left, in, leave)
		check("entered", entered, n-in, enter)
		if got, want := float64(in)/n, enter/(enter+leave); math.Abs(got-want) > 0.02 {
			t.Errorf("enter %v, leave %v: %.3f of the rounds, want %.3f", enter, leave, got, want)
		}
	}
}

func TestSome(t *testing.T) {
	const n, rounds = 7, 7000
	times := make([]int, n)
	for r := 1; r <= rounds; r++ {
		slow := 0
		for w, p := range paces(Some{2, Constant{3}}, n, 1, r) {
			if p.Slowness == 3 {
				slow++
				times[w]++
			}
		}
		if slow != 2 {
			t.Fatalf("round %d: %d slow workers, want 2", r, slow)
		}
	}
	for w, c := range times {
		if math.Abs(float64(c)-2000) > 6*math.Sqrt(2000*5./7) {
			t.Errorf("worker %d is slow in %d of %d rounds, want 2000", w, c, rounds)
		}
	}
}

func TestSharedAndTogether(t *testing.T) {
	p := paces(model(t, "shared:1+2@exp=1;slow:3@x=2;slow:3@x=3", 4), 4, 1, 1)
	if p[0].Slowness != p[1].Slowness || p[0].Slowness == 1 || p[2].Slowness != 6 || p[3].Slowness != 1 {
		t.Errorf("paces %v, want the first two equal, then 6 and 1", p)
	}
	p = paces(model(t, "slow:*@exp=1;slow:*@exp=1", 1), 1, 1, 1)
	q := paces(model(t, "slow:*@exp=1", 1), 1, stream(1, 0), 1)
	if p[0].Slowness == q[0].Slowness*q[0].Slowness {
		t.Error("two models draw the same")
	}
}

func TestDelay(t *testing.T) {
	p := paces(Delay{By: Constant{0.5}}, 1, 1, 1)[0]
	if got := p.Finish(0, 0.25); got != 0.75 {
		t.Errorf("a quarter of a shard after half a unit is done at %v, want 0.75", got)
	}
}

// Who has gone in mid-round stays away until it is back at the start of a round.
func TestPreempt(t *testing.T) {
	m := Preempt{Leave: 0.2, Back: 0.4}
	was := true
	var seen [3]int
	for r := 1; r < 500; r++ {
		p := paces(m, 1, 5, r)[0]
		here, stays := !math.IsInf(p.Slowness, 1), !math.IsInf(p.at(1), 1)
		switch {
		case !here && was && r > 1:
			t.Fatalf("round %d: gone from the start, but it was there to the end of the last", r)
		case here && stays:
			seen[0]++
		case here:
			seen[1]++
		default:
			seen[2]++
		}
		was = stays
	}
	if slices.Contains(seen[:], 0) {
		t.Errorf("there, leaving, away: %v rounds, want some of each", seen)
	}
}

func TestFailAndKill(t *testing.T) {
	const n, rounds = 2000, 40
	died := make([]int, n)
	for r := 1; r <= rounds; r++ {
		for w, p := range paces(Fail{P: 0.05}, n, 1, r) {
			dead := math.IsInf(p.at(1), 1)
			if died[w] > 0 && (!dead || !math.IsInf(p.Slowness, 1)) {
				t.Fatalf("worker %d failed in round %d and is there in round %d", w, died[w], r)
			}
			if dead && died[w] == 0 {
				died[w] = r
			}
		}
	}
	alive := 0
	for _, r := range died {
		if r == 0 {
			alive++
		}
	}
	want := n * math.Pow(0.95, rounds)
	if math.Abs(float64(alive)-want) > 6*math.Sqrt(want) {
		t.Errorf("%d of %d alive after %d rounds, want %.0f", alive, n, rounds, want)
	}
	if k := (Kill{[]int{1}, 3}); !math.IsInf(paces(k, 2, 1, 3)[1].Slowness, 1) || paces(k, 2, 1, 2)[1].Slowness != 1 || paces(k, 2, 1, 9)[0].Slowness != 1 {
		t.Error("a worker is killed before round 3, and nobody else")
	}
}
