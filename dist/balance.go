package dist

import "cmp"

// load is what a worker has of the slots, and can have.
type load struct {
	speed float64 // work in a unit of time, above 0
	seats int     // at least held
	held  int     // slots
}

// worthMoving is how many times as long as the share that gets a slot the one that
// loses it must take: speeds are measured, and a move costs a shard's transport.
const worthMoving = 1.2

// apportion deals so many slots out that the longest of all shares, slots over speed,
// is as short as it can be: every slot goes to whom it would take least time with
// what it has already, the divisor method of Jefferson and D'Hondt. Among equals it
// is whoever holds more now. Nobody gets more than its seats, nor more than limit
// unless not all slots could be dealt out then.
func apportion(slots int, workers []load, limit int) []int {
	limit = attainable(slots, workers, limit)
	got := make([]int, len(workers))
	for range slots {
		best := -1
		for i, w := range workers {
			if got[i] < min(w.seats, limit) && (best < 0 || sooner(w, got[i], workers[best], got[best])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		got[best]++
	}
	return got
}

// sooner tells whether worker a, with i slots, is to have the next one rather than
// worker b with j slots.
func sooner(a load, i int, b load, j int) bool {
	x, y := float64(i+1)/a.speed, float64(j+1)/b.speed
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(b.held-j, a.held-i)) < 0
}

// attainable returns the least number from limit on with which the workers can have
// so many slots; the largest number of seats if they cannot.
func attainable(slots int, workers []load, limit int) int {
	for limit = max(limit, 1); ; limit++ {
		room, most := 0, 0
		for _, w := range workers {
			room += min(w.seats, limit)
			most = max(most, w.seats)
		}
		if room >= slots || limit >= most {
			return limit
		}
	}
}

// nextMove returns whose slot should go to whom, one step nearer to what apportion
// says, if that is worth while: because the share that it is taken from takes that
// much longer than the one that it makes larger, or because somebody holds more than
// limit, so that its loss alone would be too much. The slot is taken from the slowest
// share that is too large, and goes to whom it takes least time; so when no more moves
// are worth while, no share takes much longer than it must.
func nextMove(workers []load, limit int) (from, to int, ok bool) {
	slots := 0
	for _, w := range workers {
		slots += w.held
	}
	want := apportion(slots, workers, limit)
	limit = attainable(slots, workers, limit)
	from, to = -1, -1
	for i, w := range workers {
		switch {
		case w.held > want[i] && (from < 0 || later(w, workers[from], limit)):
			from = i
		case w.held < want[i] && (to < 0 || sooner(w, w.held, workers[to], workers[to].held)):
			to = i
		}
	}
	if from < 0 || to < 0 {
		return 0, 0, false
	}
	a, b := workers[from], workers[to]
	return from, to, a.held > limit || float64(a.held)/a.speed > worthMoving*float64(b.held+1)/b.speed
}

// later tells whether worker a is to give a slot away rather than worker b: who holds
// more than limit first, then whose share takes longest.
func later(a, b load, limit int) bool {
	if x, y := a.held > limit, b.held > limit; x != y {
		return x
	}
	return float64(a.held)/a.speed > float64(b.held)/b.speed
}
