package dist

import (
	"context"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// deliveryBytes is how many bytes of states are on their way to workers at a time while a
// layer is placed, or one state if that is larger: the workers share the coordinator's
// network, so that sending to more of them at once would take memory and save no time.
const deliveryBytes = 64 << 20

// delivery brings the states of a placement to the workers, slot by slot.
type delivery struct {
	c       *Coordinator
	p       *placement
	most    int                    // bytes under way
	buffers bufferPool             // for copies of states
	sent    map[int][]coded.Tensor // by slot: not known to have arrived
}

func (c *Coordinator) newDelivery(p *placement) *delivery {
	return &delivery{c: c, p: p, most: deliveryBytes, sent: map[int][]coded.Tensor{}}
}

// run takes the states that are due one after the other and gives each to its worker.
// A worker that does not take its state in good time holds up nobody else.
func (d *delivery) run(ctx context.Context, state func(slot int) ([]coded.Tensor, error)) error {
	defer d.end()
	for slot, due := range slices.Clone(d.p.due) {
		if !due {
			continue
		}
		tensors, err := state(slot)
		if err != nil {
			return stateError(slot, err)
		}
		if err := d.room(ctx, bytesOf(tensors)); err != nil {
			return err
		}
		copies := make([]coded.Tensor, len(tensors))
		for i, t := range tensors {
			copies[i] = d.buffers.copyOf(t).tensor
		}
		d.give(slot, copies)
	}
	return nil
}

// give leaves a state to the placement, which gives it to the worker that has the slot,
// or to who will have it.
func (d *delivery) give(slot int, state []coded.Tensor) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.p.due[slot] = false
	d.p.states[slot] = state
	d.sent[slot] = state
	d.c.heal()
}

// room waits until a state of so many bytes may follow those under way.
func (d *delivery) room(ctx context.Context, bytes int) error {
	grace, cancel := context.WithTimeout(ctx, placeGrace)
	defer cancel()
	err := d.c.await(grace, func() bool {
		under := d.underWay()
		return under == 0 || under+bytes <= d.most
	})
	if err != nil && grace.Err() != nil && ctx.Err() == nil {
		clear(d.sent) // who has not taken it by now is not waited for, nor is its memory
		return nil
	}
	return err
}

// underWay returns the bytes of states that workers have been given and not taken. The
// memory of those that have been taken is used again.
func (d *delivery) underWay() (bytes int) {
	for slot, state := range d.sent {
		l := d.c.slots[slot]
		if l == nil {
			delete(d.sent, slot) // the placement keeps it, or it went down with the worker
			continue
		}
		switch h := l.shards[d.p.layer.Name]; {
		case h == nil || h.source != d.p.id:
			delete(d.sent, slot)
		case h.held:
			for _, t := range state {
				d.buffers.give(t.Data)
			}
			delete(d.sent, slot)
		default:
			bytes += bytesOf(state)
		}
	}
	return bytes
}

// end says that no state follows.
func (d *delivery) end() {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.p.due = nil
	d.c.heal()
}

// bytesOf is the size of tensors.
func bytesOf(tensors []coded.Tensor) (n int) {
	for _, t := range tensors {
		n += 4 * len(t.Data)
	}
	return n
}
