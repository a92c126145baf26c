package dist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/alarm"
)

// soloWorker serves one end of a connection and gives the other.
func soloWorker(t *testing.T, change ...func(*WorkerConfig)) *Conn {
	t.Helper()
	cfg := WorkerConfig{Name: "w", Handlers: map[string]coded.Factory{toyKind: newSomeToyShard}, Log: quiet}
	for _, f := range change {
		f(&cfg)
	}
	w, err := NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{in: make(chan *Conn)}
	net := &network{nodes: map[string]*node{"w": n}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Serve(ctx, n); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	conn, err := net.dial(ctx, "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		conn.Close()
		<-done
	})
	return conn
}

func say(t *testing.T, conn *Conn, h Header, tensors ...coded.Tensor) {
	t.Helper()
	if err := conn.Send(t.Context(), &Message{Header: h, Tensors: tensors}); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn *Conn) *Message {
	t.Helper()
	var m Message
	if err := conn.Recv(&m); err != nil {
		t.Fatal(err)
	}
	return &m
}

// A coordinator that breaks the protocol is told what was wrong.
func TestWorkerRefusesNonsense(t *testing.T) {
	layer := toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 2, 4, 4)
	other := layer
	other.Kind = "strange"
	model := newToyModel(layer, 1)
	state, err := model.state(0)
	if err != nil {
		t.Fatal(err)
	}
	place := Header{Kind: KindPlace, Layer: "fc1", Place: &layer, Round: 1, Placed: 1}
	x := coded.NewTensor(3, 4)
	for name, c := range map[string]struct {
		placed  bool
		h       Header
		tensors []coded.Tensor
		want    string
	}{
		"unknown kind of message": {h: Header{Kind: 99}, want: "kind 99"},
		"unknown kind of layer":   {h: Header{Kind: KindPlace, Layer: "fc1", Place: &other}, want: `no handler for kind "strange"`},
		"place without a layer":   {h: Header{Kind: KindPlace, Layer: "fc1"}, want: "description of the layer"},
		"place with a bad state":  {h: place, tensors: state[:1], want: "layer fc1: place: toy: state of 1 tensors"},
		"task without an operand": {placed: true, h: Header{Kind: KindTask, Layer: "fc1", Round: 5}, want: "round 5"},
		"operand of no layer":     {h: Header{Kind: KindOperand, Layer: "fc9", Keep: true, Slots: []int{2}}, tensors: []coded.Tensor{x}, want: `"fc9" for slot 2`},
		"operand of no slot":      {placed: true, h: Header{Kind: KindOperand, Layer: "fc1", Keep: true}, tensors: []coded.Tensor{x}, want: "kept by no slot"},
		"operand of another slot": {placed: true, h: Header{Kind: KindOperand, Layer: "fc1", Product: coded.Forward, Keep: true, Slots: []int{0, 1}}, tensors: []coded.Tensor{x}, want: `"fc1" for slot 1`},
		"task of another slot":    {placed: true, h: Header{Kind: KindTask, Layer: "fc1", Slot: 1, Round: 5}, want: "slot 1"},
		"operand without tensors": {placed: true, h: Header{Kind: KindOperand, Layer: "fc1"}, want: "0 tensors"},
		"gradient alone":          {placed: true, h: Header{Kind: KindOperand, Layer: "fc1", Keep: true, Slots: []int{0}, Product: coded.Backward, Step: 3}, tensors: []coded.Tensor{x}, want: "layer fc1: slot 0: step 3: gradient"},
		"update without settings": {placed: true, h: Header{Kind: KindUpdate, State: 1}, want: "settings"},
		"repair without donors":   {placed: true, h: Header{Kind: KindReceive, Layer: "fc1", Place: &layer}, want: "0 donors"},
		"too much at once":        {placed: true, h: Header{Kind: KindOperand, Layer: "fc1", Round: 7}, tensors: []coded.Tensor{coded.NewTensor(300, 4)}, want: "at most 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := soloWorker(t, func(cfg *WorkerConfig) { cfg.MaxQueue = 4096 })
			say(t, conn, Header{Kind: KindHello, Role: RoleCoordinator, Run: "r", From: "c"})
			if m := hear(t, conn); m.Kind != KindHello || m.From != "w" || m.Run != "r" {
				t.Fatalf("answer to hello is %+v", m.Header)
			}
			if c.placed {
				say(t, conn, place, state...)
				if m := hear(t, conn); m.Kind != KindApplied || m.Layer != "fc1" || m.Round != 1 {
					t.Fatalf("answer to place is %+v", m.Header)
				}
			}
			say(t, conn, c.h, c.tensors...)
			if m := hear(t, conn); m.Kind != KindBye || !strings.Contains(m.Error, c.want) {
				t.Errorf("answer is %+v, want a goodbye with %q", m.Header, c.want)
			}
		})
	}
}

// A worker cannot give what it does not have, and says so.
func TestWorkerCannotGive(t *testing.T) {
	conn := soloWorker(t)
	say(t, conn, Header{Kind: KindHello, Role: RoleCoordinator, Run: "r", From: "c"})
	hear(t, conn)
	say(t, conn, Header{Kind: KindFetch, Layer: "fc1", Round: 4})
	if m := hear(t, conn); m.Kind != KindState || m.Round != 4 || m.Error == "" {
		t.Errorf("answer to a fetch is %+v", m.Header)
	}
	say(t, conn, Header{Kind: KindDonate, Layer: "fc1", Round: 5})
	if m := hear(t, conn); m.Kind != KindDonate || m.Round != 5 || m.Error == "" {
		t.Errorf("answer to a donation is %+v", m.Header)
	}
	say(t, conn, Header{Kind: KindPing})
	if m := hear(t, conn); m.Kind != KindPong {
		t.Errorf("answer to a ping is %+v", m.Header)
	}
}

// A worker reads on although nobody reads its answers, of which it keeps few.
func TestWorkerReadsWhileItCannotWrite(t *testing.T) {
	conn := soloWorker(t)
	say(t, conn, Header{Kind: KindHello, Role: RoleCoordinator, Run: "r", From: "c"})
	hear(t, conn)
	for range 100 {
		say(t, conn, Header{Kind: KindPing})
	}
	say(t, conn, Header{Kind: KindFetch, Layer: "fc1", Round: 4})
	var heard []Kind
	for len(heard) < 2 || !slices.Contains(heard, KindState) || !slices.Contains(heard, KindPong) {
		heard = append(heard, hear(t, conn).Kind)
		if len(heard) > 4 {
			t.Fatalf("answers are of kinds %v, want a state and up to three pongs", heard)
		}
	}
}

// countedAlarm counts its settings.
type countedAlarm struct {
	*alarm.Coarse
	set atomic.Int32
}

func (a *countedAlarm) Set(at time.Time) {
	a.set.Add(1)
	a.Coarse.Set(at)
}

// A paced worker waits by the alarm that it was given, also when that rings early,
// and not for what is called off.
func TestPacedWorkerWaitsByItsAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &countedAlarm{Coarse: alarm.NewCoarse()}
		cl := newCluster(t, CoordinatorConfig{Slots: 1})
		cl.start(0, 1, func(cfg *WorkerConfig) { cfg.Pace, cfg.Alarm = 1e-6, clock })
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 4, 4), 1)
		cl.place(m)
		round := coded.Round{Layer: "fc1", Product: coded.Forward, Operand: m.random(100, 4)}
		const want = 2 * 100 * 4 * 4 * time.Millisecond
		begin := time.Now()
		r, err := cl.c.Start(cl.ctx(), round)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		clock.Coarse.Set(time.Now()) // early
		synctest.Wait()
		clock.Coarse.Set(begin.Add(want))
		if _, err := r.Wait(cl.ctx()); err != nil || time.Since(begin) != want || clock.set.Load() != 1 {
			t.Errorf("%v after %v, the alarm was set %d times; want %v and once", err, time.Since(begin), clock.set.Load(), want)
		}
		r.Release()
		if r, err = cl.c.Start(cl.ctx(), round); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.Release()
		synctest.Wait()
		if s := cl.workers["worker-1"].w.Stats(); s.Cancelled != 1 || time.Since(begin) != want {
			t.Errorf("%d tasks called off after %v, want 1 at once", s.Cancelled, time.Since(begin)-want)
		}
	})
}

func TestWorkerRefusesBadHellos(t *testing.T) {
	for name, h := range map[string]Header{
		"no hello":     {Kind: KindPing},
		"no run":       {Kind: KindHello, Role: RoleCoordinator, From: "c"},
		"no name":      {Kind: KindHello, Role: RoleCoordinator, Run: "r"},
		"strange role": {Kind: KindHello, Role: "king", Run: "r", From: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := soloWorker(t)
			say(t, conn, h)
			var m Message
			if err := conn.Recv(&m); err == nil {
				t.Errorf("answer is %+v, want none", m.Header)
			}
		})
	}
}

// Shards are kept for a coordinator that comes back, and not for ever.
func TestWorkerKeepsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 1})
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 4, 4), 1)
		w := cl.add("worker-1", func(cfg *WorkerConfig) { cfg.Keep = time.Minute })
		cl.place(m)
		cl.train(m, 1, 2)
		held := func() int {
			w.w.mu.Lock()
			defer w.w.mu.Unlock()
			return len(w.w.kept.shards)
		}
		cl.cut("worker-1")
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if held() != 1 {
			t.Fatalf("%d shards are kept, want 1", held())
		}
		cl.connect(w)
		cl.train(m, 3, 4) // uncoded: nobody else has the shard
		cl.cut("worker-1")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if held() != 0 {
			t.Errorf("%d shards are kept after a minute", held())
		}
	})
}

// Fetch does not wait for a frozen worker when others can give.
func TestFetchAsksOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.freeze("worker-1")
		begin := time.Now()
		if err := cl.fetched(m); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != fetchHedge {
			t.Errorf("fetch took %v, want %v", took, fetchHedge)
		}
		for i := 2; i <= 3; i++ {
			cl.freeze("worker-" + string(rune('0'+i)))
		}
		begin = time.Now()
		ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, errors.New("enough waited"))
		defer cancel()
		_, err := cl.c.Fetch(ctx, "fc1")
		if !errors.Is(err, coded.ErrTooFewResults) || !strings.Contains(err.Error(), "enough waited") || time.Since(begin) != 5*time.Second {
			t.Errorf("with too few that answer, after %v: %v", time.Since(begin), err)
		}
		for i := 1; i <= 3; i++ {
			cl.thaw("worker-" + string(rune('0'+i)))
		}
	})
}
