package dist

import (
	"math"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Results that decode may amplify rounding: by the condition number of their set. Above
// CoordinatorConfig.MaxCondition a chunk waits for one more result, and for another
// while that is not enough (least squares over more results has a smaller one). It is
// decoded as it is when nobody can give one more, or nobody has within as long again
// as the round took until all of its chunks could be decoded: so that a limit no more
// than doubles the time of a round.

// newConditions returns what tells the condition numbers of a code's sets, within the
// limit if there is one.
func (c *Coordinator) newConditions(code *coded.Code) *coded.Decoder {
	most := c.cfg.MaxCondition
	if most == 0 {
		most = math.Inf(1)
	}
	return coded.NewDecoder(code, coded.DecoderConfig{MaxCond: most})
}

// limit is what new covers of a placement wait for, nil if nothing.
func (c *Coordinator) limit(p *placement) *coded.Decoder {
	if c.cfg.MaxCondition == 0 {
		return nil
	}
	return p.conditions
}

// lookAt looks at a round with a result for a chunk, which may await more.
func (c *Coordinator) lookAt(r *round, chunk int) {
	if !r.over && r.cover.awaits(chunk) && !r.cover.more(chunk, c.possible(r)) {
		c.accept(r, chunk)
	}
	if !r.over && r.cover.awaiting() && r.enough.IsZero() {
		r.enough = time.Now()
		signal(r.notify)
	}
}

// accept ends the waiting for a chunk.
func (c *Coordinator) accept(r *round, chunk int) {
	r.cover.accept(chunk)
	c.endChunk(r, chunk)
}

// acceptIf accepts the chunks that await more than they can get.
func (c *Coordinator) acceptIf(r *round, hopeless func(chunk int) bool) {
	for chunk := range r.layer.Chunks {
		if !r.over && r.cover.awaits(chunk) && hopeless(chunk) {
			c.accept(r, chunk)
		}
	}
}

// patient returns until when a round may await more, if it does nothing else.
func (r *round) patient(until time.Time) time.Time {
	if r.enough.IsZero() {
		return until
	}
	return earlier(until, r.enough.Add(r.enough.Sub(r.started)))
}

// Condition returns the largest condition number of Sets, 0 if chunks decode together.
// It is computed when it is asked for: that of a set takes as long as its decode weights.
func (s RoundStats) Condition() float64 {
	if s.conditions == nil {
		return 0
	}
	largest, _ := conditionOf(s.conditions, s.Sets)
	return largest
}

// conditionOf returns the largest condition number of sets, and how many are above the
// limit of d.
func conditionOf(d *coded.Decoder, sets [][]int) (largest float64, above int) {
	over, was := false, []int(nil)
	for _, set := range sets {
		if was == nil || !slices.Equal(set, was) {
			// A set that does not decode is the business of whoever decodes it.
			w, err := d.Weights(set)
			if w != nil {
				largest = max(largest, w.Cond)
			}
			over, was = err != nil, set
		}
		if over {
			above++
		}
	}
	return largest, above
}

// judgeConditions counts the chunks of a round that are decoded from sets above the
// limit.
func (c *Coordinator) judgeConditions(r *round) {
	p := r.place
	if c.limit(p) == nil {
		return
	}
	condition, above := conditionOf(p.conditions, r.sets)
	r.above = above
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Awaited += r.awaited
	c.stats.Above += above
	if above > 0 && !p.warned {
		p.warned = true
		log := c.cfg.Log.With("layer", r.Layer, "product", r.Product.String(), "step", r.Step)
		c.notices.post(func() {
			log.Warn("decoded with a condition number above the limit, as nobody could give one more result: later ones are counted alone",
				"condition", condition, "limit", c.cfg.MaxCondition, "chunks", above)
		})
	}
}
