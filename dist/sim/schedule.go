package sim

import (
	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// Schedule decides during a round what workers do: see its methods. It is the
// one that the coordinator of package dist drives, with times in units of a
// shard's time from the start of the round.
type Schedule = schedule.Schedule

// results asks one tracker about the results that workers have, one after the
// other, of their tasks: a code that counts unfinished work.
type results struct {
	code    *coded.Code // whose tasks have several results
	tracker *coded.Tracker
}

func (r *results) Reset()                { r.tracker.Reset() }
func (r *results) Add(worker, chunk int) { r.tracker.Add(r.code.Chunk(worker, chunk)) }
func (r *results) Ready(int) bool        { return r.tracker.Ready() }
func (r *results) Done() bool            { return r.tracker.Ready() }
