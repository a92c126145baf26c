package dist

import (
	"context"

	"github.com/coda-ml/coda/coded"
)

// FetchAll implements coded.Executor. It waits for those that have not answered
// when enough have no longer than Fetch waits before it asks everybody.
func (c *Coordinator) FetchAll(ctx context.Context, layer string, tensors ...int) ([]coded.ShardState, error) {
	c.mu.Lock()
	var only []int
	if p := c.layers[layer]; p != nil && c.cfg.Replay != nil {
		only = c.replayFetch(p)
	}
	c.mu.Unlock()
	states, err := c.fetchFrom(ctx, layer, fetch{only: only, tensors: tensors, all: true})
	if err != nil || c.cfg.Record == nil {
		return states, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var set []int
	for _, s := range states {
		set = append(set, s.Slot)
	}
	c.cfg.Record.fetch(layer, c.version, set)
	return states, nil
}

// hedge asks everybody, and has enough of what suffices.
func (c *Coordinator) hedge(f *fetch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.hedged, f.all = true, false
	c.ask(f)
}

// settle ends a fetch that is complete.
func (f *fetch) settle() {
	if !f.over && f.complete() {
		f.over = true
		close(f.done)
	}
}

// answered tells whether all who were asked have answered.
func (f *fetch) answered() bool {
	for slot := range f.asked {
		if f.got[slot] == nil {
			return false
		}
	}
	return true
}
