package plan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// breakEven finds from which speed of the workers, and from which bandwidth, a
// candidate is faster than the coordinator, without stragglers. A step is never
// slower for faster workers or wires, so that halving the interval finds it.
func (q Question) breakEven(ctx context.Context, p Product, c *Candidate) error {
	here := p.local(q.Machines, q.Batch)
	calm := q.Machines.calm()
	pays := func(m Machines) (bool, error) {
		t, err := predict(ctx, m, c.where.actions(m), 1, q.Seed)
		return t.mean < here, err
	}
	ratio := calm.meanSpeed() / calm.Local
	times, err := threshold(func(times float64) (bool, error) { return pays(calm.faster(times)) })
	if err != nil {
		return err
	}
	c.BreakEvenSpeed = times * ratio
	times, err = threshold(func(times float64) (bool, error) {
		m := calm
		m.Bandwidth *= times
		return pays(m)
	})
	if err != nil {
		return err
	}
	c.BreakEvenBandwidth = times * calm.Bandwidth
	if math.IsInf(c.BreakEvenBandwidth, 1) { // it was infinite, and pays with any
		c.BreakEvenBandwidth = 0
	}
	return nil
}

// againstUncoded finds for every candidate how slow one worker has to be, without other
// stragglers, for its code to beat the uncoded layer in the same placement.
func (q Question) againstUncoded(ctx context.Context, p Product, list []Candidate) error {
	plain := map[string]*placed{}
	for _, placement := range []string{Resident, Batch} {
		var err error
		if plain[placement], err = q.uncoded(p, placement); err != nil {
			return err
		}
	}
	for i := range list {
		c := &list[i]
		uncoded := plain[c.Placement]
		if uncoded == nil || c.Code == "uncoded" {
			continue
		}
		times, err := threshold(func(times float64) (bool, error) {
			m := q.Machines.calm()
			m.Speeds = slices.Clone(m.Speeds)
			m.Speeds[0] /= max(1, times)
			with, err := predict(ctx, m, c.where.actions(m), 1, q.Seed)
			if err != nil {
				return false, err
			}
			without, err := predict(ctx, m, uncoded.actions(m), 1, q.Seed)
			return with.mean < without.mean, err
		})
		if err != nil {
			return err
		}
		if times > 0 {
			c.BreakEvenStraggler = max(1, times)
		}
	}
	return nil
}

// uncoded is a layer in a placement, cut into a part for each worker; nil if it cannot be.
func (q Question) uncoded(p Product, placement string) (*placed, error) {
	n := len(q.Machines.Speeds)
	if n == 0 || p.CannotBe(placement, q.Batch, n, n) != "" {
		return nil, nil
	}
	c := Candidate{Placement: placement, Code: "uncoded", N: n, K: n, spec: coded.Spec{Name: "uncoded", N: n, K: n}}
	err := q.describe(p, &c)
	return c.where, err
}

// threshold returns the factor, within 1 %, from which on pays is true; 0 if it is
// not at a million.
func threshold(pays func(float64) (bool, error)) (float64, error) {
	low, high := 1e-6, 1e6
	if ok, err := pays(high); err != nil || !ok {
		return 0, err
	}
	for high/low > 1.01 {
		middle := math.Sqrt(low * high)
		ok, err := pays(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

// explain says of every candidate what speaks for or against it.
func explain(m Machines, spare int, here float64, list []Candidate) {
	for i := range list {
		c := &list[i]
		if c.Placement == Local {
			if c.Why == "" {
				c.Why = fmt.Sprintf("%s here", ms(here))
			}
			continue
		}
		c.Why = against(m, here, *c)
		if c.Losses < spare {
			c.Why += fmt.Sprintf("; it bears the loss of %d workers, not of %d", c.Losses, spare)
		}
	}
	if best := list[0]; best.Placement == Local && len(list) > 1 {
		list[0].Why = list[1].Why
	}
}

// against compares a candidate with the coordinator.
func against(m Machines, here float64, c Candidate) string {
	if c.StepMS < here {
		return fmt.Sprintf("%s on the workers, %s here", ms(c.StepMS), ms(here))
	}
	costs := c.where.costs
	compute := 0.0
	for i, r := range costs.rounds {
		if costs.has(i) {
			compute += r.flops * float64(c.K) / float64(c.N)
		}
	}
	compute = 1000 * ((compute+costs.gather)/m.meanSpeed() + costs.apply/m.Memory)
	wire := 1000 * c.Bytes / m.Bandwidth
	messages := 1000 * costs.messages(c.N, c.K, c.Chunks) * m.Message
	switch {
	case compute >= here:
		return fmt.Sprintf("the workers' part alone takes %s at %.3g GFLOP/s each, %s here at %.3g", ms(compute), m.meanSpeed()/1e9, ms(here), m.Local/1e9)
	case wire >= here:
		return fmt.Sprintf("the network alone takes %s for %.3g MB, %s here", ms(wire), c.Bytes/1e6, ms(here))
	case messages >= here:
		return fmt.Sprintf("the coordinator's work for messages alone takes %s, %s here", ms(messages), ms(here))
	}
	return fmt.Sprintf("%s on the workers (%s of computing, %s of network, %s for messages, the rest waiting), %s here", ms(c.StepMS), ms(compute), ms(wire), ms(messages), ms(here))
}

func ms(t float64) string { return fmt.Sprintf("%.3g ms", t) }
