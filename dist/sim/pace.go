package sim

import (
	"math"
	"slices"
)

// Pace is how fast a worker works during one round: the time that it takes for
// one shard's worth of work, which is constant between the Changes.
type Pace struct {
	Slowness float64  // time per shard: 1 undisturbed, +Inf standing still
	Changes  []Change // ascending in time
}

// Change is a new slowness from a time on, counted from the start of the round.
type Change struct{ At, Slowness float64 }

// Finish returns when work that is begun at a time, 0 or later, is done; +Inf if
// never.
func (p Pace) Finish(from, work float64) float64 {
	slowness := p.Slowness
	for _, c := range p.Changes {
		if c.At > from {
			end := from + work*slowness
			if end <= c.At {
				return end
			}
			if !math.IsInf(slowness, 1) {
				work -= (c.At - from) / slowness
			}
			from = c.At
		}
		slowness = c.Slowness
	}
	return from + work*slowness
}

// Work returns how much work is done from one time to another.
func (p Pace) Work(from, to float64) float64 {
	var work float64
	slowness := p.Slowness
	for _, c := range p.Changes {
		if c.At >= to {
			break
		}
		if c.At > from {
			work += workIn(c.At-from, slowness)
			from = c.At
		}
		slowness = c.Slowness
	}
	return work + workIn(max(0, to-from), slowness)
}

// workIn is what is done in a time, even if that has no end.
func workIn(time, slowness float64) float64 {
	if math.IsInf(slowness, 1) {
		return 0
	}
	return time / slowness
}

// at returns the slowness at a time.
func (p Pace) at(t float64) float64 {
	slowness := p.Slowness
	for _, c := range p.Changes {
		if c.At > t {
			break
		}
		slowness = c.Slowness
	}
	return slowness
}

// awake returns the first time from one on at which the worker does not stand still;
// +Inf if it never moves again.
func (p Pace) awake(from float64) float64 {
	slowness := p.Slowness
	for _, c := range p.Changes {
		if c.At > from {
			if !math.IsInf(slowness, 1) {
				return from
			}
			from = c.At
		}
		slowness = c.Slowness
	}
	if math.IsInf(slowness, 1) {
		return slowness
	}
	return from
}

// times returns the pace that takes, at each time, as many times longer as the
// two together: what one slows down, the other slows down further.
func (p Pace) times(q Pace) Pace {
	both := Pace{Slowness: p.Slowness * q.Slowness}
	for i, j := 0, 0; i < len(p.Changes) || j < len(q.Changes); {
		var t float64
		switch {
		case j == len(q.Changes) || i < len(p.Changes) && p.Changes[i].At <= q.Changes[j].At:
			t = p.Changes[i].At
			i++
		default:
			t = q.Changes[j].At
			j++
		}
		both.Changes = append(both.Changes, Change{t, p.at(t) * q.at(t)})
	}
	return both
}

// slow makes everything take a factor longer.
func (p *Pace) slow(factor float64) {
	p.Slowness *= factor
	if len(p.Changes) > 0 {
		p.Changes = slices.Clone(p.Changes)
		for i := range p.Changes {
			p.Changes[i].Slowness *= factor
		}
	}
}

// end makes the worker stand still from a time on.
func (p *Pace) end(at float64) {
	*p = p.times(Pace{Slowness: 1, Changes: []Change{{at, math.Inf(1)}}})
}

// gone is the pace of a worker that is not there.
var gone = Pace{Slowness: math.Inf(1)}

// delayed returns a pace that begins after a delay.
func delayed(delay, slowness float64) Pace {
	if delay <= 0 {
		return Pace{Slowness: slowness}
	}
	return Pace{Slowness: math.Inf(1), Changes: []Change{{delay, slowness}}}
}
