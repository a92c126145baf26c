package dist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// donationTimeout bounds the sending of a donation, and the wait of one that
// has come before the repair was announced.
const donationTimeout = 30 * time.Second

// maxDonations bounds those that wait at a worker.
const maxDonations = 256

// inbox gathers the donations of a repair. It is guarded by session.mu.
type inbox struct {
	round  uint64
	shard  shardKey
	donors []int // in order
	got    map[int]donation
}

type donation struct {
	weight float64
	state  []coded.Tensor
}

func (b *inbox) full() bool { return len(b.got) == len(b.donors) }

// sum adds the donations up in the order of slots, in float64.
func (b *inbox) sum() ([]coded.Tensor, error) {
	first := b.got[b.donors[0]].state
	weights := make([]float64, len(b.donors))
	for i, slot := range b.donors {
		d := b.got[slot]
		weights[i] = d.weight
		if !slices.EqualFunc(d.state, first, func(x, y coded.Tensor) bool { return slices.Equal(x.Shape, y.Shape) }) {
			return nil, fmt.Errorf("donations of slots %d and %d have tensors of different shapes", slot, b.donors[0])
		}
	}
	sums := make([]coded.Tensor, len(first))
	for t := range first {
		sums[t] = weighted(first[t].Shape, weights, func(i int) []float32 { return b.got[b.donors[i]].state[t].Data })
	}
	return sums, nil
}

// onReceive announces a repair. If nothing is missing between the shard's
// queue and the repair's version, it takes its turn in the queue; else the shard
// begins anew.
func (s *session) onReceive(m *Message) error {
	key := shardKey{m.Layer, m.Slot}
	h := s.shards[key]
	if len(m.Slots) == 0 || len(m.Slots) > coded.MaxTasks {
		return fmt.Errorf("layer %q: repair with %d donors", m.Layer, len(m.Slots))
	}
	if h == nil || h.tail != m.State || h.placed != m.Placed || h.waiting() {
		fresh, err := s.newShard(m)
		if err != nil {
			return err
		}
		h = fresh
		s.replaceShard(h)
	}
	donors := slices.Clone(m.Slots)
	slices.Sort(donors)
	box := &inbox{round: m.Round, shard: key, donors: slices.Compact(donors), got: map[int]donation{}}
	s.forgetInboxes(key) // the coordinator has given them up
	s.inboxes[m.Round] = box
	s.newest[m.Layer] = m.Round
	h.add(&operation{kind: opReceive, at: s.arrivals, inbox: box, header: m.Header})
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// forgetInboxes drops what has been given to a shard for repairs.
func (s *session) forgetInboxes(of shardKey) {
	maps.DeleteFunc(s.inboxes, func(_ uint64, b *inbox) bool { return b.shard == of })
}

// waiting tells whether the shard waits for a repair already.
func (h *heldShard) waiting() bool {
	return slices.ContainsFunc(h.ops, func(op *operation) bool { return op.kind == opReceive })
}

// takeDonation reads a peer's donation and puts it into its inbox.
func (w *Worker) takeDonation(ctx context.Context, conn *Conn, run string) error {
	var m Message
	if err := conn.Recv(&m); err != nil {
		return err
	}
	if m.Kind != KindDonation || len(m.Tensors) == 0 {
		return fmt.Errorf("message of kind %d with %d tensors from a peer, want a donation", m.Kind, len(m.Tensors))
	}
	s := w.current(run)
	if s == nil {
		return fmt.Errorf("donation for run %q, which is not served here", run)
	}
	if n := w.waiting.Add(1); n > maxDonations {
		w.waiting.Add(-1)
		return fmt.Errorf("donation of slot %d for repair %d: more than %d wait", m.Slot, m.Round, maxDonations)
	}
	defer w.waiting.Add(-1)
	ctx, cancel := context.WithTimeoutCause(ctx, donationTimeout, errors.New("no such repair was announced in time"))
	defer cancel()
	for {
		s.mu.Lock()
		box, changed, newest := s.inboxes[m.Round], s.changed, s.newest[m.Layer]
		if box != nil {
			err := box.put(&m)
			s.mu.Unlock()
			signal(s.wake)
			if err != nil {
				return err
			}
			return conn.Send(ctx, &Message{Header: Header{Kind: KindApplied, Round: m.Round}})
		}
		s.mu.Unlock()
		if m.Round <= newest {
			return nil // that repair has been given up
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-ctx.Done():
			return fmt.Errorf("donation of slot %d for repair %d: %w", m.Slot, m.Round, context.Cause(ctx))
		}
	}
}

func (b *inbox) put(m *Message) error {
	if m.Layer != b.shard.layer || !slices.Contains(b.donors, m.Slot) {
		return fmt.Errorf("donation of slot %d of layer %q for repair %d, want layer %q and slots %v", m.Slot, m.Layer, m.Round, b.shard.layer, b.donors)
	}
	if _, twice := b.got[m.Slot]; twice {
		return fmt.Errorf("donation of slot %d for repair %d came twice", m.Slot, m.Round)
	}
	b.got[m.Slot] = donation{m.Weight, slices.Clone(m.Tensors)}
	return nil
}

// give sends the state of a shard to the coordinator or to a peer. It is copied
// first, so that the computing goes on meanwhile; what the copies take is not kept, as
// that is seldom needed and may be as large as the shard.
func (s *session) give(h *heldShard, asked Header) error {
	if h.shard == nil || h.version != asked.State {
		s.cannotGive(asked, fmt.Sprintf("shard is at update %d, not %d", h.version, asked.State))
		return nil
	}
	var once bufferPool
	var copies []*counted
	var wrong error
	m := &Message{Header: Header{Layer: asked.Layer, Round: asked.Round, Slot: h.slot, State: h.version}}
	err := s.w.guard(func() error {
		state := h.shard.State()
		if asked.Kind == KindFetch {
			if state, wrong = coded.SelectTensors(state, asked.Slots); wrong != nil {
				return nil
			}
		}
		for _, t := range state {
			c := once.copyOf(t)
			copies = append(copies, c)
			m.Tensors = append(m.Tensors, c.tensor)
		}
		return nil
	})
	release := func() {
		for _, c := range copies {
			c.release()
		}
	}
	if err != nil {
		release()
		return err
	}
	if wrong != nil {
		s.cannotGive(asked, wrong.Error())
		return nil
	}
	if asked.Kind == KindFetch {
		m.Kind = KindState
		s.send(m, release)
		return nil
	}
	m.Kind, m.Weight, m.From = KindDonation, asked.Weight, s.w.cfg.Name
	s.wg.Go(func() {
		defer release()
		if err := s.donate(asked.Addr, m); err != nil {
			s.cannotGive(asked, err.Error())
		}
	})
	return nil
}

// donate takes a donation to a peer and waits until the peer has it.
func (s *session) donate(addr string, m *Message) error {
	if s.w.cfg.Dial == nil {
		return errors.New("this worker cannot reach its peers")
	}
	ctx, cancel := context.WithTimeout(s.ctx, donationTimeout)
	defer cancel()
	conn, err := s.w.cfg.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	hello := &Message{Header: Header{Kind: KindHello, Run: s.run, From: s.w.cfg.Name, Role: RoleWorker}}
	if err := conn.Send(ctx, hello); err != nil {
		return err
	}
	if err := conn.Send(ctx, m); err != nil {
		return err
	}
	var reply Message
	if err := conn.Recv(&reply); err != nil {
		return fmt.Errorf("donation to %s was not taken: %w", addr, err)
	}
	return nil
}
