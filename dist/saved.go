package dist

import (
	"context"
	"reflect"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// When a checkpoint has been written, the workers are told to keep a copy of their
// shards as they are then. So a coordinator that goes on from the checkpoint,
// because the one before it died or because too many workers did, has to encode and
// send only the shards of those that have none. A copy has a number, which is
// noted beside the checkpoint.

// savedShard is the copy of a shard on a worker. Its memory is used again for the next
// copy of the same shard.
type savedShard struct {
	layer  coded.Layer
	number uint64
	slot   int
	state  []coded.Tensor
}

// save keeps a copy of a shard. One that is not at the wanted version is left: it
// is no error to have none.
func (s *session) save(h *heldShard, asked Header) error {
	if h.shard == nil || h.version != asked.State {
		return nil
	}
	s.w.mu.Lock()
	old := s.w.kept.takeSaved(s.run, h.key())
	s.w.mu.Unlock()
	c := savedShard{layer: h.layer, number: asked.Saved, slot: h.slot}
	err := s.w.guard(func() error {
		for i, t := range h.shard.State() {
			var memory []float32
			if i < len(old) {
				memory = old[i].Data[:0]
			}
			c.state = append(c.state, coded.Tensor{Shape: slices.Clone(t.Shape), Data: append(memory, t.Data...)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.kept.save(s.run, c)
	return nil
}

// savedState returns the copy of a shard that is about to be placed, nil if there
// is none of that number, or of another layer or slot.
func (s *session) savedState(h *heldShard, number uint64) []coded.Tensor {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	c, ok := s.w.kept.saved[h.key()]
	if !ok || s.w.kept.savedOf != s.run || c.number != number || !reflect.DeepEqual(c.layer, h.layer) {
		return nil
	}
	return c.state
}

// cannotPlace tells the coordinator that there is no copy to place.
func (s *session) cannotPlace(asked Header) {
	m := &Message{Header: Header{Kind: KindApplied, Layer: asked.Layer, Round: asked.Round, Slot: asked.Slot, Error: "no such copy"}}
	s.sendLater(m, nil)
}

// Keep makes the workers keep copies of their shards as they are now, in place of
// those they kept before, and returns the copies' number for Resume. It does not
// wait for them.
func (c *Coordinator) Keep() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastOp++
	for name, p := range c.layers {
		pos := max(c.log.newest(), p.pos)
		for slot, l := range c.slots {
			if l == nil || !l.shards[name].fresh(c.version) {
				continue
			}
			l.order(pos, &Message{Header: Header{Kind: KindKeep, Layer: name, Slot: slot, State: c.version, Saved: c.lastOp}})
			l.saved[name] = Held{Layer: name, Slot: slot, Saved: c.lastOp}
		}
	}
	return c.lastOp
}

// Resume says that the layers placed from now on are as they were at the Keep of
// that number, of this coordinator or one before it of the same run: workers that
// have kept their copies are not sent them. 0 ends that.
func (c *Coordinator) Resume(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resume = number
}

// noteSaved remembers the copies that a worker offers: those of a slot at one seat.
func (l *line) noteSaved(held []Held) {
	var slots []int
	for _, h := range held {
		if h.Saved == 0 {
			continue
		}
		at := slices.Index(slots, h.Slot)
		if at < 0 {
			at, slots = len(slots), append(slots, h.Slot)
		}
		if at < len(l.seats) {
			l.seats[at].saved[h.Layer] = h
		}
	}
}

// savedSlot is the slot of the copies that a worker has kept at a seat for the run to go on
// with, -1 if it has none.
func (l *link) savedSlot(number uint64) int {
	for _, h := range l.saved {
		if number != 0 && h.Saved == number {
			return h.Slot
		}
	}
	return -1
}

// offered returns by slot the workers that have a copy of a layer to go on with.
// Where answers are tested none is taken: the copies differ by more rounding from
// what a new follower begins with than it allows for.
func (c *Coordinator) offered(layer coded.Layer) map[int]*link {
	c.mu.Lock()
	defer c.mu.Unlock()
	offers := map[int]*link{}
	if c.resume == 0 || c.verifies(layer) {
		return offers
	}
	for slot, l := range c.slots {
		if l == nil || slot >= layer.Code.N {
			continue
		}
		if h, ok := l.saved[layer.Name]; ok && h.Saved == c.resume && h.Slot == slot {
			offers[slot] = l
		}
	}
	return offers
}

// lostOffers returns the slots of offers that came to nothing, and counts and
// forgets those that were kept. It needs mu.
func (c *Coordinator) lostOffers(p *placement) (slots []int) {
	for slot, l := range p.offers {
		h := l.shards[p.layer.Name]
		switch {
		case c.slots[slot] != l || h == nil:
			slots = append(slots, slot)
		case h.source != p.id: // repaired meanwhile
			delete(p.offers, slot)
		case h.held:
			c.stats.Resumed++
			delete(p.offers, slot)
		}
	}
	slices.Sort(slots)
	return slots
}

// endOffers ends the time of offers: who does not keep one from now on is repaired.
func (c *Coordinator) endOffers(p *placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lostOffers(p)
	p.offers = nil
}

// awaitPlaced is await that sends, meanwhile, the states of slots whose workers
// turned out to have no copy of them.
func (c *Coordinator) awaitPlaced(ctx context.Context, p *placement, state func(slot int) ([]coded.Tensor, error), ok func() bool) error {
	for {
		var lost []int
		if err := c.await(ctx, func() bool { lost = c.lostOffers(p); return len(lost) > 0 || ok() }); err != nil || len(lost) == 0 {
			return err
		}
		for _, slot := range lost {
			tensors, err := stateOf(slot, state)
			if err != nil {
				return err
			}
			c.mu.Lock()
			delete(p.offers, slot)
			p.states[slot] = tensors
			c.heal()
			c.mu.Unlock()
		}
	}
}
