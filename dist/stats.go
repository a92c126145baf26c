package dist

import (
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Stats are totals of a coordinator. Bytes are those of frames.
type Stats struct {
	Rounds   int     // that ended well
	Updates  int     // handed over
	Repairs  int     // completed
	Rebuilds int     // layers encoded anew
	Moves    int     // slots that went to a worker that is less loaded for its speed
	LeftOut  int     // slots taken from workers that are too slow for them, and given to nobody
	Resumed  int     // shards that workers had kept for a coordinator to go on with
	Refused  int     // answers that were found wrong
	Overdue  int     // tasks given up since their answers did not come, to be handed out again
	Awaited  int     // chunks that could be decoded and awaited more, see CoordinatorConfig.MaxCondition
	Above    int     // chunks decoded with a condition number above that limit
	Work     float64 // spent on chunks of products: flops where shards can tell, else chunks
	Wasted   float64 // of it, what no decoding used
	BytesIn  int64
	BytesOut int64
}

// WastedFraction is the fraction of the work that no decoding used.
func (s Stats) WastedFraction() float64 {
	if s.Work == 0 {
		return 0
	}
	return s.Wasted / s.Work
}

// RoundStats describe a round that ended well.
type RoundStats struct {
	Layer    string
	Product  coded.Product
	Step     int
	Took     time.Duration // from Start until every chunk could be decoded
	Compute  time.Duration // computing time of the busiest worker on the chunks that were used
	Answered []int         // slots whose results were used, in order
	Workers  []string      // whose they were, in order
	Sets     [][]int       // by chunk: the slots that it is decoded from

	Awaited int // chunks that could be decoded and awaited more, see CoordinatorConfig.MaxCondition
	Above   int // chunks that are decoded with a condition number above that limit

	// Residual is by how much results disagree, relative to their size, the largest of
	// Compared comparisons: of results to spare with those that are decoded, which some
	// rounds have (see coded.Agreement), and with Verification of every answer with its
	// operand. Of honest results it is rounding, some 1e-7 to 1e-5.
	Residual float64
	Compared int // 0: nothing is known

	conditions *coded.Decoder // tells those of Sets; nil if chunks decode together
}

// Stats returns the totals so far.
func (c *Coordinator) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for l := range c.lines() {
		s.BytesIn += l.conn.BytesIn()
		s.BytesOut += l.conn.BytesOut()
	}
	return s
}

// spent is the work on a chunk by a slot.
type spent struct {
	by          *link
	chunk, slot int
	work        float64
	nanos       int64
}

// work measures a chunk: a shard that cannot tell its flops counts chunks.
func work(flops float64) float64 {
	if flops > 0 {
		return flops
	}
	return 1
}

// used tells whether a decoding uses the work.
func (r *round) used(s spent) bool { return slices.Contains(r.sets[s.chunk], s.slot) }

// settle counts what of a round's work was not used.
func (c *Coordinator) settle(r *round) {
	c.stats.Rounds++
	for _, s := range r.spent {
		if !r.used(s) {
			c.waste(s.by, s.work)
		}
	}
}

// announce counts what is known of a round that ended well and calls OnRound, once.
func (c *Coordinator) announce(r *round) {
	if r.announced {
		return
	}
	r.announced = true
	c.judgeConditions(r)
	c.compare(r)
	if c.cfg.OnRound == nil {
		return
	}
	s := RoundStats{
		Layer: r.Layer, Product: r.Product, Step: r.Step, Took: r.took, Sets: r.sets,
		Awaited: r.awaited, Above: r.above, Residual: r.residual, Compared: r.compared, conditions: r.place.conditions,
	}
	busy := map[string]int64{} // by worker
	for _, done := range r.spent {
		if !r.used(done) {
			continue
		}
		host := done.by.host
		if _, known := busy[host]; !known {
			s.Workers = append(s.Workers, host)
		}
		busy[host] += done.nanos
		s.Compute = max(s.Compute, time.Duration(busy[host]))
		if !slices.Contains(s.Answered, done.slot) {
			s.Answered = append(s.Answered, done.slot)
		}
	}
	slices.Sort(s.Workers)
	slices.Sort(s.Answered)
	c.cfg.OnRound(s)
}
