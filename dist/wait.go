package dist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coda-ml/coda/coded"
)

var (
	errReleased  = errors.New("the round has been released")
	errDiscarded = errors.New("the result is discarded: there is nothing to wait for")
)

// fail gives an error its place.
func (r *round) fail(err error) error {
	return fmt.Errorf("dist: layer %s: step %d: %s product: %w", r.Layer, r.Step, r.Product, err)
}

// Wait implements coded.Pending.
func (r *round) Wait(ctx context.Context) ([][]coded.Answer, error) {
	c := r.c
	c.mu.Lock()
	deadline := time.Now().Add(c.deadline.limit() + c.cfg.Wait)
	c.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		until := deadline
		if limit := r.short.Add(c.cfg.Wait); !r.short.IsZero() && limit.Before(until) {
			until = limit
		}
		until = r.patient(until)
		if !r.over && (r.lost || !time.Now().Before(until)) {
			c.giveUp(r)
		}
		if !r.over {
			until = earlier(until, c.reclaim(r))
		}
		over := r.over
		c.mu.Unlock()
		if over {
			return r.collect()
		}
		timer.Reset(time.Until(until))
		select {
		case <-r.notify:
		case <-timer.C:
		case <-ctx.Done():
			return nil, r.fail(context.Cause(ctx))
		}
	}
}

// giveUp ends a round that nobody has ended in time: with what there is if that can
// be decoded.
func (c *Coordinator) giveUp(r *round) {
	if r.cover.awaiting() {
		c.acceptIf(r, func(int) bool { return true })
		return
	}
	c.endRound(r, c.tooFew(r))
}

// collect lists the answers of a round that is over.
func (r *round) collect() ([][]coded.Answer, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.Discard:
		return nil, r.fail(errDiscarded)
	case r.results == nil:
		return nil, r.fail(errReleased)
	}
	answers := make([][]coded.Answer, len(r.sets))
	for chunk, set := range r.sets {
		for _, slot := range set {
			answers[chunk] = append(answers[chunk], coded.Answer{Slot: slot, Result: r.results[chunk][slot].tensor})
		}
	}
	r.c.announce(r)
	return answers, nil
}

// Release implements coded.Pending.
func (r *round) Release() {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Discard {
		return
	}
	if !r.over {
		c.endRound(r, r.fail(errReleased))
	}
	for _, chunk := range r.results {
		for _, result := range chunk {
			result.release()
		}
	}
	r.results = nil
}

// tooFew explains why a round has ended without enough answers.
func (c *Coordinator) tooFew(r *round) error {
	e := &coded.TooFewError{Layer: r.Layer, Product: r.Product, Step: r.Step, Need: r.c.cfg.Strategies[r.Layer].need(r.place.code)}
	waited := time.Since(r.started).Round(time.Millisecond)
	slots := r.cover.working()
	if r.cover.chosen != nil {
		e.Need = len(slots)
	}
	for _, slot := range slots {
		l := c.slots[slot]
		switch {
		case l == nil:
			e.Missing = append(e.Missing, c.missing[slot])
		case l.shards[r.Layer] == nil && l.resting() && c.suspects[l.name] != nil:
			e.Missing = append(e.Missing, fmt.Sprintf("%s (quarantined: %s)", l.name, c.suspects[l.name].reason))
		case l.shards[r.Layer] == nil:
			e.Missing = append(e.Missing, fmt.Sprintf("%s (has no shard of the layer)", l.name))
		case !l.shards[r.Layer].held:
			e.Missing = append(e.Missing, fmt.Sprintf("%s (is still getting its shard)", l.name))
		case !r.short.IsZero():
			e.Have++
		case r.owes(slot):
			e.Missing = append(e.Missing, fmt.Sprintf("%s (no answer within %v)", l.name, waited))
		default:
			e.Have++
		}
	}
	if e.Need == 0 { // of a code without a threshold: at least
		e.Need = e.Have + 1
	}
	return e
}

// owes tells whether a slot has not done all of its part of what is missing.
func (r *round) owes(slot int) bool {
	for chunk := range r.layer.Chunks {
		if !r.cover.ready(chunk) && r.cover.allowed(chunk, slot) && *r.cover.at(chunk, slot) != cellDone {
			return true
		}
	}
	return false
}
