package dist

import (
	"runtime"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// A batch is full at a number of messages, at a number of bytes, and with a goodbye.
func TestBatchIsFull(t *testing.T) {
	ping := &Message{Header: Header{Kind: KindPing}}
	var b batch
	for i := range batchMessages {
		if b.full() {
			t.Fatalf("full with %d messages, want %d", i, batchMessages)
		}
		b.add(ping, nil)
	}
	if !b.full() || b.ends() {
		t.Errorf("with %d messages: full %v, ends %v", len(b.messages), b.full(), b.ends())
	}
	b = batch{}
	b.add(&Message{Tensors: []coded.Tensor{coded.NewTensor(batchBytes/4 - 1)}}, nil)
	if b.full() {
		t.Errorf("full with %d bytes", b.bytes)
	}
	b.add(&Message{Tensors: []coded.Tensor{coded.NewTensor(1)}}, nil)
	if !b.full() {
		t.Errorf("not full with %d bytes", b.bytes)
	}
	b = batch{}
	b.add(&Message{Header: Header{Kind: KindBye}}, nil)
	if !b.full() || !b.ends() {
		t.Error("a goodbye does not end a batch")
	}
}

// aRound starts a round that nobody has been told of.
func aRound(t *testing.T, c *Coordinator, m *toyModel, rows int) *round {
	t.Helper()
	r, err := c.Start(t.Context(), coded.Round{Layer: "fc1", Product: coded.Forward, Operand: m.random(rows, m.in)})
	if err != nil {
		t.Fatal(err)
	}
	return r.(*round)
}

// busyLine is the line of a cluster's only worker, while a batch is being written
// as far as others can tell.
func busyLine(cl *cluster) (*line, *toyModel) {
	cl.t.Helper()
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 3, 6, 6), 1)
	cl.start(0, 1)
	cl.place(m)
	for ctx := cl.ctx(); ctx.Err() == nil; runtime.Gosched() {
		cl.c.mu.Lock()
		l := cl.c.slots[0].line
		busy := l.sending
		l.sending = true
		cl.c.mu.Unlock()
		if !busy {
			return l, m
		}
	}
	cl.t.Fatal("the sender does not come to an end")
	panic("unreachable")
}

// An operand and the first tasks are one batch, which only one goroutine gets; who
// was refused looks again when it has been written.
func TestOperandAndTasksAreOneBatch(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	l, m := busyLine(cl)
	r := aRound(t, cl.c, m, 2)
	defer r.Release()
	cl.c.mu.Lock()
	none := cl.c.gather(l)
	again := l.again
	l.sending = false
	b := cl.c.gather(l)
	cl.c.mu.Unlock()
	if none != nil || !again {
		t.Fatalf("a second batch while one is written: %v", none)
	}
	var kinds []Kind
	for _, m := range b.messages {
		kinds = append(kinds, m.Kind)
	}
	if len(kinds) != 3 || kinds[0] != KindOperand || kinds[1] != KindTask || kinds[2] != KindTask {
		t.Errorf("batch is of kinds %v, want an operand and two tasks", kinds)
	}
	if err := cl.c.write(l, b); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(cl.ctx()); err != nil { // the third task went out in reply
		t.Error(err)
	}
}

// The reader leaves to the sender what is long, and nobody loses it.
func TestReplyLeavesLongMessages(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	l, m := busyLine(cl)
	r := aRound(t, cl.c, m, replyBytes/4/m.in+1)
	defer r.Release()
	cl.c.mu.Lock()
	l.sending = false
	reply, left := cl.c.reply(l), l.left
	cl.c.mu.Unlock()
	if reply != nil || left == nil {
		t.Errorf("the reader writes %v itself, and leaves %v", reply, left)
	}
	if _, err := r.Wait(cl.ctx()); err != nil {
		t.Error(err)
	}
}

// What was left to a sender that has ended is given back.
func TestForgoSettles(t *testing.T) {
	settled := 0
	l := &line{left: &batch{sent: []func(){func() { settled++ }, func() { settled++ }}}}
	c := &Coordinator{}
	c.forgo(l)
	c.forgo(l)
	if settled != 2 || l.left != nil {
		t.Errorf("%d of 2 settled", settled)
	}
}
