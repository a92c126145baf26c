package dist

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
)

// shardKey names a shard on a worker: with several seats it may hold several slots of
// a layer.
type shardKey struct {
	layer string
	slot  int
}

func (a shardKey) compare(b shardKey) int {
	return cmp.Or(cmp.Compare(a.slot, b.slot), strings.Compare(a.layer, b.layer))
}

// kept is what a worker has between two connections of its coordinator. The worker's
// mu guards it.
type kept struct {
	shards  map[shardKey]parked     // of a session that broke
	run     string                  // of them
	saved   map[shardKey]savedShard // at the last checkpoint of a run
	savedOf string                  // the run
	expire  *time.Timer
}

// parked is a shard that waits for its coordinator to come back.
type parked struct {
	layer  coded.Layer
	held   Held
	tensor []coded.Tensor
}

// leaveOthers gives up what is kept of other runs.
func (k *kept) leaveOthers(run string) {
	if k.run != run {
		k.forget()
	}
	if k.savedOf != run {
		k.saved = nil
	}
}

// begin makes s the worker's session, with what has been kept for it. It needs mu.
func (w *Worker) begin(s *session) {
	for _, p := range w.kept.shards {
		s.restore(p)
	}
	w.kept.forget()
	s.offer = w.kept.offers()
	w.session = s
}

// finish ends the worker's session. If it broke, its shards are kept. It needs mu.
func (w *Worker) finish(broke bool) {
	s, k := w.session, &w.kept
	w.session = nil
	if !broke {
		k.saved = nil
		return
	}
	k.shards, k.run = s.park(), s.run
	k.expire = time.AfterFunc(w.cfg.Keep, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		k.drop()
	})
}

// drop gives up everything: nobody has come back for it.
func (k *kept) drop() {
	k.forget()
	k.saved = nil
}

// forget gives up the shards.
func (k *kept) forget() {
	if k.expire != nil {
		k.expire.Stop()
	}
	k.shards, k.run, k.expire = nil, "", nil
}

// save keeps a copy of a shard, in place of those of its layer that have other numbers.
func (k *kept) save(run string, c savedShard) {
	if k.saved == nil || k.savedOf != run {
		k.saved, k.savedOf = map[shardKey]savedShard{}, run
	}
	maps.DeleteFunc(k.saved, func(key shardKey, old savedShard) bool {
		return key.layer == c.layer.Name && old.number != c.number
	})
	if len(k.saved) < maxHeld {
		k.saved[shardKey{c.layer.Name, c.slot}] = c
	}
}

// takeSaved takes the copy of a shard out, if there is one: nobody is to use it any more.
func (k *kept) takeSaved(run string, key shardKey) []coded.Tensor {
	if k.savedOf != run {
		return nil
	}
	state := k.saved[key].state
	delete(k.saved, key)
	return state
}

// offers describes the copies, in the order of their slots and layers.
func (k *kept) offers() (list []Held) {
	for _, key := range slices.SortedFunc(maps.Keys(k.saved), shardKey.compare) {
		list = append(list, Held{Layer: key.layer, Slot: key.slot, Saved: k.saved[key].number})
	}
	return list
}

var errReplaced = errors.New("replaced by a new connection of the same run")
