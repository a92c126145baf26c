package sim

import "math"

// Ideal returns the least time in which workers of the given paces could have
// done the work, divided perfectly and with nothing lost: the least t with
//
//	sum over w of min(held, work of w until t) >= work
//
// since nobody can do more than what it holds. It is +Inf if they never can.
func Ideal(paces []Pace, held, work float64) float64 {
	if all := possible(paces, held); all < work {
		if !(all >= work*(1-1e-12)) { // else the sum's rounding
			return math.Inf(1)
		}
		work = all
	}
	low, high := 0.0, 1.0
	for {
		done, _ := progress(paces, held, high)
		if done >= work {
			break
		}
		low, high = high, 2*high
	}
	// Newton's method, kept within the bracket. Between two changes of a slope the
	// progress is linear, and a step from there ends at the solution itself.
	for t := low; ; {
		done, speed := progress(paces, held, t)
		if done < work {
			low = t
		} else {
			high = t
		}
		next := t + (work-done)/speed
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if high-low <= 1e-14*high || next <= low || next >= high || math.Abs(next-t) <= 1e-15*t {
			return next
		}
		t = next
	}
}

// possible is the work that the workers do if they have for ever.
func possible(paces []Pace, held float64) float64 {
	var sum float64
	for _, p := range paces {
		sum += min(held, p.Work(0, math.Inf(1)))
	}
	return sum
}

// progress returns the work that can have been done until t, and the speed at
// which it grows there.
func progress(paces []Pace, held, t float64) (done, speed float64) {
	for i := range paces {
		p := &paces[i]
		var w, s float64
		if len(p.Changes) == 0 {
			w, s = t/p.Slowness, p.Slowness
		} else {
			w, s = p.Work(0, t), p.at(t)
		}
		if w >= held {
			done += held
			continue
		}
		done += w
		speed += 1 / s
	}
	return done, speed
}
