package plan

import (
	"context"
	"math"
)

// Parts say what a step waits for, in milliseconds. Each is by how much the step would be
// shorter if that cost nothing, after what stands before it costs nothing any more; so they
// add up to the step, and what hides behind something else does not count.
type Parts struct {
	Messages   float64 `json:"messages_ms"`   // latency, bandwidth, and the coordinator's time for each
	Stragglers float64 `json:"stragglers_ms"` // what the straggler model adds
	Updates    float64 `json:"updates_ms"`    // gradients and optimisers of the workers
	Coding     float64 `json:"coding_ms"`     // encoding, copying and decoding
	Products   float64 `json:"products_ms"`   // of the workers
	Local      float64 `json:"local_ms"`      // layers, updates and all else that the coordinator computes
}

// Sum is the whole step.
func (p Parts) Sum() float64 {
	return p.Messages + p.Stragglers + p.Updates + p.Coding + p.Products + p.Local
}

// parts divides the mean time of a step of so many seconds.
func (q Question) parts(ctx context.Context, actions []action, seconds float64) (Parts, error) {
	var p Parts
	rest := 1000 * seconds
	m := q.Machines
	for _, part := range []struct {
		takes *float64
		free  func()
	}{
		{&p.Messages, func() { m.Bandwidth, m.Latency, m.Message = math.Inf(1), 0, 0 }},
		{&p.Stragglers, func() { m = m.calm() }},
		{&p.Updates, func() { m.fixed = true }},
		{&p.Coding, func() { m.Combine = math.Inf(1) }},
	} {
		part.free()
		t, err := predict(ctx, m, actions, q.Steps, q.Seed)
		if err != nil {
			return p, err
		}
		*part.takes, rest = split(rest, 1000*t.mean)
	}
	for _, a := range actions {
		p.Local += 1000 * a.seconds
	}
	p.Products, p.Local = split(rest, p.Local)
	return p, nil
}

// split divides what is left of a step into a part and what remains without it. Below the
// rounding of sums there is no part.
func split(left, without float64) (part, remains float64) {
	if without > (1-1e-9)*left {
		return 0, left
	}
	return left - without, without
}
