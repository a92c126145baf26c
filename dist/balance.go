package dist

import (
	"cmp"
	"math"
)

// load is what a worker has of the slots, and can have.
type load struct {
	speed float64 // work in a unit of time, above 0
	seats int     // at least held
	held  int     // slots
}

// job is what the workers do in a step, together. Every slot that is live costs its
// worker update, whoever computes the products; and of those k slots' worth is needed,
// which is pulled by whoever has time, of a slot at most once. So with h_w slots at
// worker w, of speed v_w, a step takes the least T for which
//
//	h_w update <= v_w T  for all w,  and  sum_w min(h_w product, v_w T - h_w update) >= k product.
//
// More slots at a worker leave it less time for products; too few leave it idle.
type job struct {
	k               int     // slots whose products are enough
	least, most     int     // slots that are to be live
	losses          int     // so many workers may be lost at a time
	product, update float64 // work of a slot in a step
}

// worthMoving is how many times as long as planned a step must be expected to take:
// speeds are measured, and a move costs a shard's transport.
const worthMoving = 1.1

// gives is how much of the products a worker computes in a time with so many slots.
func (j job) gives(w load, slots int, time float64) float64 {
	return min(float64(slots)*j.product, w.speed*time-float64(slots)*j.update)
}

// keepsUp tells whether a worker can update so many slots in a time.
func (j job) keepsUp(w load, slots int, time float64) bool {
	return float64(slots)*j.update <= w.speed*time*(1+1e-9)
}

// enough tells whether so much is as much as the products are.
func (j job) enough(given float64) bool { return given >= float64(j.k)*j.product*(1-1e-9) }

// risk is how many slots too few would be left when losses workers are gone that have
// most slots each, 0 if enough would.
func (j job) risk(live, most int) int { return max(0, j.k+j.losses*most-live) }

// takes returns how long a step takes with so many slots at each worker, infinite if
// they are not enough.
func (j job) takes(workers []load, slots func(i int) int) float64 {
	live := 0
	for i := range workers {
		live += slots(i)
	}
	if live < j.k {
		return math.Inf(1)
	}
	return j.shortest(workers, func(time float64) bool {
		sum := 0.0
		for i, w := range workers {
			if !j.keepsUp(w, slots(i), time) {
				return false
			}
			sum += j.gives(w, slots(i), time)
		}
		return j.enough(sum)
	})
}

// shortest returns the least time that is possible; infinite if none is. What is
// possible in a time is in every longer one.
func (j job) shortest(workers []load, possible func(time float64) bool) float64 {
	speed := 0.0
	for _, w := range workers {
		speed += w.speed
	}
	low, high := 0.0, float64(j.k)*(j.product+j.update)/speed
	for range 64 {
		if possible(high) {
			for range 48 {
				if mid := (low + high) / 2; possible(mid) {
					high = mid
				} else {
					low = mid
				}
			}
			return high
		}
		low, high = high, 2*high
	}
	return math.Inf(1)
}

// plan deals slots out so that a step takes as short as it can: nobody gets more than
// its seats, and losses workers can be lost, if that can be.
func (j job) plan(workers []load) (slots []int, time float64) {
	most := 0
	for _, w := range workers {
		most = max(most, w.seats)
	}
	time, least := math.Inf(1), math.MaxInt
	for limit := 1; limit <= most; limit++ {
		var got []int
		t := j.shortest(workers, func(time float64) bool {
			try, ok := j.deal(workers, limit, time)
			if ok {
				got = try
			}
			return ok
		})
		if got == nil {
			continue
		}
		live, held := 0, 0
		for _, n := range got {
			live, held = live+n, max(held, n)
		}
		if r := j.risk(live, held); r < least || r == least && t < time*(1-1e-9) {
			slots, time, least = got, t, r
		}
	}
	return slots, time
}

// deal deals slots out, at most limit to a worker, so that in a time as much of the
// products is computed as can be, and tells whether that is enough. What a worker gives
// is concave in its slots, so that it is best to give every slot to whom it helps most.
// Among equals that is who has it already, else who has least for its speed.
func (j job) deal(workers []load, limit int, time float64) (slots []int, ok bool) {
	slots = make([]int, len(workers))
	room, sum := 0, 0.0
	for _, w := range workers {
		room += min(w.seats, limit)
	}
	least := max(j.least, min(j.k+j.losses*limit, j.most, room))
	for live := range j.most {
		best, most := -1, 0.0
		for i, w := range workers {
			n := slots[i] + 1
			if n > min(w.seats, limit) || !j.keepsUp(w, n, time) {
				continue
			}
			gain := j.gives(w, n, time) - j.gives(w, n-1, time)
			if best < 0 || gain > most+1e-12*j.product || gain > most-1e-12*j.product && sooner(w, slots[i], workers[best], slots[best]) {
				best, most = i, gain
			}
		}
		if live >= least && most <= 0 {
			break
		}
		if best < 0 {
			return nil, false
		}
		slots[best]++
		sum += most
	}
	return slots, j.enough(sum)
}

// sooner tells whether worker a, with i slots, is to have the next one rather than
// worker b with j slots.
func sooner(a load, i int, b load, j int) bool {
	if has, other := a.held > i, b.held > j; has != other {
		return has
	}
	return float64(i+1)/a.speed < float64(j+1)/b.speed
}

// change is a step towards a plan: a slot of a worker goes to another one, is left out
// (to is -1), or one that was left out is given to a worker (from is -1).
type change struct{ from, to int }

// next returns the change to make now, if it is worth while: because a step would take
// that much less time when all of the plan has been done, or because the loss of so few
// workers could not be borne. The slot comes from the worker that has most for its
// speed of those with too many, and goes to the one that has least then.
func (j job) next(workers []load) (c change, ok bool) {
	live, most := 0, 0
	for _, w := range workers {
		live, most = live+w.held, max(most, w.held)
	}
	want, time := j.plan(workers)
	if want == nil {
		return change{}, false
	}
	planned, largest := 0, 0
	for _, n := range want {
		planned, largest = planned+n, max(largest, n)
	}
	safer := j.risk(planned, largest) < j.risk(live, most)
	if !safer && j.takes(workers, func(i int) int { return workers[i].held }) <= worthMoving*time {
		return change{}, false
	}
	c = change{-1, -1}
	for i, w := range workers {
		switch {
		case w.held > want[i] && (c.from < 0 || cmp.Compare(float64(w.held)/w.speed, float64(workers[c.from].held)/workers[c.from].speed) > 0):
			c.from = i
		case w.held < want[i] && (c.to < 0 || float64(w.held+1)/w.speed < float64(workers[c.to].held+1)/workers[c.to].speed):
			c.to = i
		}
	}
	return c, c != change{-1, -1}
}
