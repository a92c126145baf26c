package dist

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawLoads draws workers that hold slots in some way.
func drawLoads(t *rapid.T) []load {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) load {
		seats := rapid.IntRange(1, 3).Draw(t, "seats")
		return load{
			speed: rapid.SampledFrom([]float64{0.2, 0.5, 0.9, 1, 1.1, 3}).Draw(t, "speed"),
			seats: seats, held: rapid.IntRange(0, seats).Draw(t, "held"),
		}
	}), 1, 5).Draw(t, "workers")
}

// drawJob draws what so many workers do, with slots to leave out or without.
func drawJob(t *rapid.T, workers []load) job {
	held := heldOf(workers)
	j := job{
		k: rapid.IntRange(1, 8).Draw(t, "k"), least: held, most: held,
		losses:  rapid.IntRange(1, 2).Draw(t, "losses"),
		product: 1, update: rapid.SampledFrom([]float64{0, 0.3, 1, 2}).Draw(t, "update"),
	}
	if rapid.Bool().Draw(t, "scarce") {
		j.least, j.most = j.k, j.k+rapid.IntRange(0, 6).Draw(t, "spare")
	}
	return j
}

func heldOf(workers []load) (slots int) {
	for _, w := range workers {
		slots += w.held
	}
	return slots
}

// best tries every way to deal slots out.
func (j job) best(workers []load) (risk int, time float64) {
	risk, time = math.MaxInt, math.Inf(1)
	got := make([]int, len(workers))
	var try func(i, live, most int)
	try = func(i, live, most int) {
		if i < len(workers) {
			for n := range workers[i].seats + 1 {
				got[i] = n
				try(i+1, live+n, max(most, n))
			}
			return
		}
		if live < j.least || live > j.most {
			return
		}
		r, t := j.risk(live, most), j.takes(workers, func(i int) int { return got[i] })
		if !math.IsInf(t, 1) && (r < risk || r == risk && t < time) {
			risk, time = r, t
		}
	}
	try(0, 0, 0)
	return risk, time
}

// What takes says is what the equation says.
func TestStepTime(t *testing.T) {
	even := []load{{speed: 1, seats: 2}, {speed: 1, seats: 2}, {speed: 0.5, seats: 2}}
	j := job{k: 4, product: 1, update: 1}
	for _, c := range []struct {
		slots [3]int
		want  float64
	}{
		{[3]int{2, 2, 0}, 4},   // 2 (T-2) = 4
		{[3]int{2, 2, 1}, 3.6}, // 2 (T-2) + (T/2-1) = 4
		{[3]int{2, 2, 2}, 4},   // the last takes 4 for its updates alone
		{[3]int{2, 1, 1}, 4},   // at T = 4 all three compute all that they have
		{[3]int{2, 1, 0}, math.Inf(1)},
	} {
		if have := j.takes(even, func(i int) int { return c.slots[i] }); !(math.Abs(have-c.want) < 1e-6) && have != c.want {
			t.Errorf("slots %v take %g, want %g", c.slots, have, c.want)
		}
	}
}

// No other way to deal slots out takes less time, or bears more losses.
func TestPlanIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawLoads(t)
		j := drawJob(t, workers)
		got, time := j.plan(workers)
		risk, want := j.best(workers)
		if got == nil {
			if !math.IsInf(want, 1) {
				t.Fatalf("no plan for %+v of %+v, which can take %g", j, workers, want)
			}
			return
		}
		live, most := 0, 0
		for i, n := range got {
			live, most = live+n, max(most, n)
			if n < 0 || n > workers[i].seats {
				t.Fatalf("worker %d of %+v gets %d", i, workers, n)
			}
		}
		if live < j.least || live > j.most {
			t.Fatalf("%v of %d to %d slots", got, j.least, j.most)
		}
		if r := j.risk(live, most); r != risk || time > want*(1+1e-6) {
			t.Fatalf("%v takes %g and lacks %d slots after losses; %g and %d can be had with %+v of %+v", got, time, r, want, risk, j, workers)
		}
		if have := j.takes(workers, func(i int) int { return got[i] }); math.Abs(have-time) > 1e-6*time {
			t.Fatalf("%v takes %g, not %g", got, have, time)
		}
	})
}

// Changes come to an end, stay within the seats, and leave a step near the shortest.
func TestChangesSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawLoads(t)
		j := drawJob(t, workers)
		for changes := 0; ; changes++ {
			c, ok := j.next(workers)
			if !ok {
				break
			}
			if c.from >= 0 {
				workers[c.from].held--
			}
			if c.to >= 0 {
				workers[c.to].held++
			}
			for _, w := range workers {
				if w.held < 0 || w.held > w.seats {
					t.Fatalf("change %+v leaves %+v", c, workers)
				}
			}
			if changes > 40 {
				t.Fatalf("%d changes of %+v", changes, workers)
			}
		}
		if _, best := j.plan(workers); !math.IsInf(best, 1) {
			if have := j.takes(workers, func(i int) int { return workers[i].held }); have > worthMoving*best*(1+1e-6) {
				t.Fatalf("the changes end with %+v, which takes %g; the best takes %g", workers, have, best)
			}
		}
	})
}

func TestNextChange(t *testing.T) {
	even := func(held int, speeds ...float64) (workers []load) {
		for _, v := range speeds {
			workers = append(workers, load{speed: v, seats: 3, held: held})
		}
		return workers
	}
	all := func(k, n int) job { return job{k: k, least: n, most: n, losses: 1, product: 1, update: 1} }
	scarce := func(k, n int) job { return job{k: k, least: k, most: n, losses: 1, product: 1, update: 1} }
	none := change{}
	for name, test := range map[string]struct {
		workers []load
		job     job
		want    change
	}{
		"equals":                {even(2, 1, 1, 1, 1), all(5, 8), none},
		"a little slower":       {even(2, 1, 1, 0.9, 1), all(5, 8), none},
		"five times slower":     {even(2, 1, 0.2, 1, 1), all(5, 8), change{1, 0}},
		"the slowest first":     {even(2, 1, 0.4, 0.2, 1), all(5, 8), change{2, 0}},
		"nobody can take more":  {[]load{{1, 2, 2}, {0.2, 2, 2}, {1, 2, 2}}, all(3, 6), none},
		"left out":              {even(2, 1, 1, 1, 1, 1, 1, 0.2, 0.2), scarce(10, 16), change{6, -1}},
		"one slot each":         {[]load{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0.1, 1, 1}}, scarce(2, 4), change{3, -1}},
		"needed for a loss":     {[]load{{1, 1, 1}, {1, 1, 1}, {0.1, 1, 1}}, scarce(2, 4), none},
		"wanted for a loss":     {[]load{{1, 1, 1}, {1, 1, 1}, {0.1, 1, 0}}, scarce(2, 4), change{-1, 2}},
		"more than may be lost": {[]load{{1, 3, 3}, {1, 3, 1}}, all(2, 4), change{0, 1}},
		"nobody":                {nil, all(2, 4), none},
	} {
		c, ok := test.job.next(test.workers)
		if ok != (test.want != none) || ok && c != test.want {
			t.Errorf("%s: %+v, %t; want %+v", name, c, ok, test.want)
		}
	}
}
