package dist

import (
	"slices"
	"time"
)

// link is a seat of a worker as the coordinator sees it: it has a slot or is a spare,
// and shares the worker's line with the other seats. What is not in the first group is
// guarded by Coordinator.mu.
type link struct {
	*line
	name string
	seat int // its number, from 0

	slot   int // -1: a spare
	shards map[string]*holding
	saved  map[string]Held     // by layer: copies that the worker has kept
	tasks  map[taskKey]handout // handed out and not answered
	stats  LinkStats           // but for what LinkStats fills in
	stale  bool                // reported as stale or new, and not yet as repaired

	restUntil time.Time   // no repair of this seat begins before
	rest      *time.Timer // begins the next one
}

type taskKey struct {
	round uint64
	chunk int
}

// holding is what a seat has, or is about to have, of one layer.
type holding struct {
	held    bool   // the worker has acknowledged it
	source  uint64 // the placement or the repair that it came by
	base    int    // version that it came with
	applied int    // version that the worker has reported
	next    uint64 // position in the log from which it is told everything
	mending bool   // under repair, or working through what came meanwhile
}

// fresh tells whether a holding can serve a product at a version, or will when
// one more update is applied.
func (h *holding) fresh(version int) bool {
	return h != nil && h.held && h.base <= version && h.applied >= version-1
}

// dropLayer forgets what the seat holds of a layer, and what it was about to
// be given. What others are waiting for stays in the queue.
func (l *link) dropLayer(layer string) {
	delete(l.shards, layer)
	l.ordered = slices.DeleteFunc(l.ordered, func(o orderedMessage) bool {
		return o.of == l && o.m.Layer == layer && o.m.Kind == KindReceive
	})
}
