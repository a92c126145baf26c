package dist

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawLoads draws workers that hold slots in some way.
func drawLoads(t *rapid.T) []load {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) load {
		seats := rapid.IntRange(1, 4).Draw(t, "seats")
		return load{
			speed: rapid.SampledFrom([]float64{0.2, 0.5, 0.9, 1, 1.1, 3}).Draw(t, "speed"),
			seats: seats, held: rapid.IntRange(0, seats).Draw(t, "held"),
		}
	}), 1, 5).Draw(t, "workers")
}

func heldOf(workers []load) (slots int) {
	for _, w := range workers {
		slots += w.held
	}
	return slots
}

// shortest is the least that the longest share can take, by trying every way to deal
// the slots out.
func shortest(slots int, workers []load, limit int) float64 {
	if len(workers) == 0 {
		if slots > 0 {
			return 1e9
		}
		return 0
	}
	best := 1e9
	for n := range min(workers[0].seats, limit, slots) + 1 {
		best = min(best, max(float64(n)/workers[0].speed, shortest(slots-n, workers[1:], limit)))
	}
	return best
}

// longest returns the time of the share that takes longest.
func longest(workers []load, slots func(i int) int) float64 {
	worst := 0.0
	for i, w := range workers {
		worst = max(worst, float64(slots(i))/w.speed)
	}
	return worst
}

// Every slot is dealt out, within the seats and, if that can be, the limit; and no
// other way makes the longest share shorter.
func TestApportionIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawLoads(t)
		slots := heldOf(workers)
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		got := apportion(slots, workers, limit)
		bound := attainable(slots, workers, limit)
		sum := 0
		for i, n := range got {
			sum += n
			if n < 0 || n > workers[i].seats || n > bound {
				t.Fatalf("worker %d of %+v gets %d, at most %d", i, workers, n, bound)
			}
		}
		if sum != slots {
			t.Fatalf("%v of %d slots dealt out to %+v", got, slots, workers)
		}
		if room := func(limit int) (sum int) {
			for _, w := range workers {
				sum += min(w.seats, limit)
			}
			return sum
		}; bound > max(limit, 1) && room(bound-1) >= slots {
			t.Fatalf("up to %d a worker of %+v, where %d would do", bound, workers, bound-1)
		}
		have, want := longest(workers, func(i int) int { return got[i] }), shortest(slots, workers, bound)
		if have > want*(1+1e-12) {
			t.Fatalf("%v takes %g, %g can be had with %+v", got, have, want, workers)
		}
	})
}

// Moves come to an end, never make the longest share longer unless the limit asks for
// them, and leave it near the shortest.
func TestMovesSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawLoads(t)
		slots := heldOf(workers)
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		bound := attainable(slots, workers, limit)
		time := func() float64 { return longest(workers, func(i int) int { return workers[i].held }) }
		over := func() bool { return slices.ContainsFunc(workers, func(w load) bool { return w.held > bound }) }
		for moves := 0; ; moves++ {
			from, to, ok := nextMove(workers, limit)
			if !ok {
				break
			}
			before, forced := time(), over()
			workers[from].held--
			workers[to].held++
			if workers[from].held < 0 || workers[to].held > min(workers[to].seats, bound) {
				t.Fatalf("move from %d to %d leaves %+v", from, to, workers)
			}
			if time() > before && !forced {
				t.Fatalf("a move from %d to %d takes the longest share from %g to %g", from, to, before, time())
			}
			if moves > slots {
				t.Fatalf("%d moves of %d slots", moves, slots)
			}
		}
		if best := shortest(slots, workers, bound); over() || time() > worthMoving*best*(1+1e-12) {
			t.Fatalf("the moves end with %+v, longest share %g, limit %d; the best is %g", workers, time(), bound, best)
		}
	})
}

func TestNextMove(t *testing.T) {
	even := func(speeds ...float64) (workers []load) {
		for _, v := range speeds {
			workers = append(workers, load{speed: v, seats: 3, held: 2})
		}
		return workers
	}
	for name, test := range map[string]struct {
		workers  []load
		limit    int
		from, to int
		ok       bool
	}{
		"equals":                {even(1, 1, 1, 1), 6, 0, 0, false},
		"a little slower":       {even(1, 1, 0.9, 1), 6, 0, 0, false},
		"five times slower":     {even(1, 0.2, 1, 1), 6, 1, 0, true},
		"the slowest first":     {even(1, 0.4, 0.2, 1), 6, 2, 0, true},
		"nobody can take more":  {even(1, 0.2, 1, 1), 2, 0, 0, false},
		"more than may be lost": {[]load{{1, 3, 3}, {1, 3, 1}}, 2, 0, 1, true},
		"nobody":                {nil, 2, 0, 0, false},
	} {
		from, to, ok := nextMove(test.workers, test.limit)
		if ok != test.ok || ok && (from != test.from || to != test.to) {
			t.Errorf("%s: from %d to %d, %t; want from %d to %d, %t", name, from, to, ok, test.from, test.to, test.ok)
		}
	}
}
