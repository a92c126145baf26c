package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// genPace draws a pace whose times are multiples of 1/8.
func genPace(t *rapid.T) Pace {
	slowness := rapid.SampledFrom([]float64{0.5, 1, 2, 4, math.Inf(1)})
	p := Pace{Slowness: slowness.Draw(t, "slowness")}
	at := 0.0
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at += float64(rapid.IntRange(0, 8).Draw(t, "after")) / 8
		p.Changes = append(p.Changes, Change{at, slowness.Draw(t, "slowness")})
	}
	return p
}

// What is begun at a time and done by Finish is the work between both times.
func TestFinishAndWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPace(t)
		from, work := rapid.Float64Range(0, 4).Draw(t, "from"), rapid.Float64Range(0.01, 4).Draw(t, "work")
		end := p.Finish(from, work)
		if math.IsInf(end, 1) {
			if done := p.Work(from, 1e9); done >= work {
				t.Fatalf("never finished, but %v of %v is done", done, work)
			}
			return
		}
		if done := p.Work(from, end); math.Abs(done-work) > 1e-9 {
			t.Fatalf("%v is done at %v, want %v", done, end, work)
		}
		middle := (from + end) / 2
		if a, b := p.Work(from, middle), p.Work(middle, end); math.Abs(a+b-work) > 1e-9 {
			t.Fatalf("parts %v and %v, want %v together", a, b, work)
		}
	})
}

// Slowdowns multiply at every time.
func TestPaceTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := genPace(t), genPace(t)
		both := p.times(q)
		at := rapid.Float64Range(0, 5).Draw(t, "at")
		if got, want := both.at(at), p.at(at)*q.at(at); got != want {
			t.Fatalf("slowness %v at %v, want %v", got, at, want)
		}
		slowed := p
		slowed.slow(3)
		if got, want := slowed.at(at), 3*p.at(at); got != want {
			t.Fatalf("slowed down: %v at %v, want %v", got, at, want)
		}
		ended := p
		if ended.end(2); ended.at(at) != p.at(at) && at < 2 || at >= 2 && !math.IsInf(ended.at(at), 1) {
			t.Fatalf("ended at 2: slowness %v at %v, before %v", ended.at(at), at, p.at(at))
		}
	})
}

// The ideal time is where the work is just done.
func TestIdeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var paces []Pace
		for range rapid.IntRange(1, 6).Draw(t, "workers") {
			paces = append(paces, genPace(t))
		}
		work := rapid.Float64Range(0.1, 5).Draw(t, "work")
		at := Ideal(paces, 1, work)
		if math.IsInf(at, 1) {
			if possible(paces, 1) >= work {
				t.Fatalf("never, but %v can be done of %v", possible(paces, 1), work)
			}
			return
		}
		before, _ := progress(paces, 1, at*(1-1e-9))
		after, _ := progress(paces, 1, at*(1+1e-9))
		if before > work+1e-12 || after < work-1e-12 {
			t.Fatalf("%v and %v are done around %v, want %v between them", before, after, at, work)
		}
	})
}

func TestIdealOfSteadyWorkers(t *testing.T) {
	paces := make([]Pace, 8)
	for w := range paces {
		paces[w] = Pace{Slowness: 1}
	}
	paces[0].Slowness = 5
	if got, want := Ideal(paces, 1, 6), 6/7.2; math.Abs(got-want) > 1e-13 {
		t.Errorf("one of 8 workers 5x slow: %v, want %v", got, want)
	}
	paces[0] = gone
	if got := Ideal(paces, 1, 7); math.Abs(got-1) > 1e-13 {
		t.Errorf("all work of 7 workers: %v, want 1", got)
	}
	if got := Ideal(paces, 1, 7.01); !math.IsInf(got, 1) {
		t.Errorf("more than the workers hold: %v, want never", got)
	}
}

// Who stands still hears nothing until it moves again.
func TestPaceAwake(t *testing.T) {
	inf := math.Inf(1)
	stops := Pace{Slowness: 1, Changes: []Change{{2, inf}, {3, inf}, {4, 8}, {6, inf}}}
	for from, want := range map[float64]float64{0: 0, 1.5: 1.5, 2: 4, 3.5: 4, 4: 4, 5: 5, 6: inf, 9: inf} {
		if got := stops.awake(from); got != want {
			t.Errorf("awake at %v from %v on, want %v", got, from, want)
		}
	}
	if got := gone.awake(1); got != inf {
		t.Errorf("who is gone is awake at %v", got)
	}
}
