package dist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
)

// siege is a cluster that trains over sockets, and its attackers.
type siege struct {
	t       *testing.T
	key     Key
	target  *Listener // of worker-1
	refused atomic.Int64
	step    int // trained so far

	mu       sync.Mutex
	next     chan struct{} // closed and replaced after each step
	recorded []byte        // what a client sends, from its first byte on
}

// raw is a connection of somebody who does not speak the protocol. It ends with
// the test.
func (s *siege) raw() net.Conn {
	c, err := net.Dial("tcp", s.target.Addr())
	if err != nil {
		s.t.Error(err)
		return &net.TCPConn{} // every method of it fails
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// say sends some bytes and waits until the worker hangs up.
func (s *siege) say(b []byte) {
	c := s.raw()
	defer c.Close()
	c.SetDeadline(time.Now().Add(testDeadline))
	// It may hang up in the middle: that is what is wanted.
	_, _ = c.Write(b)
	_, _ = io.Copy(io.Discard, c)
}

// dial comes with some key and must be refused.
func (s *siege) dial(key Key) {
	ctx, cancel := bounded()
	defer cancel()
	if c, err := (Wire{Key: key, HandshakeTimeout: testDeadline}).Dial(ctx, s.target.Addr()); !errors.Is(err, ErrWrongKey) {
		s.t.Errorf("with a wrong key: %v, expected ErrWrongKey", err)
		if err == nil {
			c.Close()
		}
	}
}

// tell comes with the right key, sends what is no frame, and waits until the
// worker hangs up.
func (s *siege) tell(b []byte, hangUp bool) {
	ctx, cancel := bounded()
	defer cancel()
	c, err := Wire{Key: s.key, HandshakeTimeout: testDeadline}.Dial(ctx, s.target.Addr())
	if err != nil {
		s.t.Error(err)
		return
	}
	defer c.Close()
	if _, err := c.io.Write(b); err != nil {
		s.t.Error(err)
	}
	if hangUp {
		return
	}
	c.Idle = testDeadline
	if err := c.Recv(new(Message)); err == nil || isTimeout(err) {
		s.t.Errorf("the worker goes on after % x...: %v", b[:min(len(b), 16)], err)
	}
}

// loris says a byte of a handshake a step, and goes while it is still waited for.
func (s *siege) loris(int) {
	c := s.raw()
	defer c.Close()
	for _, b := range s.recorded[:3] {
		if _, err := c.Write([]byte{b}); err != nil {
			s.t.Errorf("slow loris: %v", err)
		}
		s.mu.Lock()
		next := s.next
		s.mu.Unlock()
		select {
		case <-next:
		case <-time.After(testDeadline):
			s.t.Error("slow loris: the training has stopped")
			return
		}
	}
}

// claim is a header that asks for a tensor of the given shape.
func claim(t *testing.T, shape ...int) []byte {
	head := headerFrame(t, &Header{Version: protocolVersion, Kind: KindHello, Run: "r", From: "f", Shapes: [][]int{shape}, DType: dtypeF32}, 0)
	return head[:len(head)-4] // segments have no checksum
}

// attacks on a worker; strange ones come from somebody who has not proved the
// key, and every attempt is to be counted as refused.
var attacks = []struct {
	name    string
	times   int
	strange bool
	run     func(s *siege, i int)
}{
	{"without the key", 10, true, func(s *siege, _ int) { s.dial(Key{}) }},
	{"another key", 10, true, func(s *siege, _ int) { s.dial(NewKey()) }},
	{"replay", 20, true, func(s *siege, _ int) { s.say(s.recorded) }},
	{"random bytes", 40, true, func(s *siege, i int) { s.say(noise(i, 5+i*i*i)) }},
	{"oversized record", 20, true, func(s *siege, _ int) { s.say(append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 1<<16)...)) }},
	{"truncated handshake", 40, true, func(s *siege, i int) {
		c := s.raw()
		_, _ = c.Write(s.recorded[:i*len(s.recorded)/40])
		c.Close()
	}},
	{"slow loris", 20, true, (*siege).loris},
	{"oversized header", 15, false, func(s *siege, i int) {
		s.tell(binary.LittleEndian.AppendUint32(nil, uint32(maxHeader+1)<<i), false)
	}},
	{"oversized tensor", 10, false, func(s *siege, i int) { s.tell(claim(s.t, 1<<29, 1+i), false) }},
	{"truncated frame", 20, false, func(s *siege, i int) {
		frame := claim(s.t, 1000)
		s.tell(frame[:1+i*len(frame)/20], true)
	}},
	{"no hello", 10, false, func(s *siege, _ int) { b := encodeFrame(s.t, sampleMessage()); s.tell(b[:len(b)-4], false) }},
	{"random frame", 10, false, func(s *siege, i int) { s.tell(append([]byte{200, 0, 0, 0}, noise(i, 1000)...), false) }},
}

func noise(seed, size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// Nobody who attacks a worker that trains disturbs the training, or leaves
// anything behind.
func TestSiege(t *testing.T) {
	s, cl, m := besiege(t)
	for _, attack := range attacks {
		before := s.refused.Load()
		over := make(chan struct{})
		go func() {
			defer close(over)
			var wg sync.WaitGroup
			for i := range attack.times {
				wg.Go(func() { attack.run(s, i) })
			}
			wg.Wait()
		}()
		s.trainUntil(cl, m, over)
		want := int64(0)
		if attack.strange {
			want = int64(attack.times)
		}
		if err := s.relieved(before + want); err != nil {
			t.Fatalf("%s: %v", attack.name, err)
		}
		s.undisturbed(cl, m)
		if t.Failed() {
			t.Fatalf("that was %s", attack.name)
		}
	}
}

// A thousand connect at once, and say nothing: the memory that they cost has a
// bound, and who has the key comes through.
func TestSiegeByACrowd(t *testing.T) {
	const crowd = 1000
	s, cl, m := besiege(t)
	before := memory()
	over := make(chan struct{})
	go func() {
		defer close(over)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range crowd / 8 {
					s.raw()
				}
			})
		}
		wg.Wait()
		s.tell(make([]byte, 4), false) // somebody with the key, behind all of them
	}()
	s.trainUntil(cl, m, over)
	if n := len(s.target.entry.slots); n > defaultMaxHandshakes {
		t.Errorf("%d handshakes at a time, expected at most %d", n, defaultMaxHandshakes)
	}
	// A handshake has a goroutine, TLS's state and no buffer of ours: some 20 KiB.
	const most = 32 << 20
	if grown := memory() - before; grown > most {
		t.Errorf("%d bytes of memory for the crowd, expected at most %d", grown, most)
	} else {
		t.Logf("%d connections took %d KiB", crowd, grown>>10)
	}
	s.undisturbed(cl, m)
}

// memory is what is in use after a collection.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// besiege starts a coordinator with six workers over sockets and trains a
// little. Handshakes have so much time that no slow machine runs out of it.
func besiege(t *testing.T) (*siege, *cluster, *toyModel) {
	t.Helper()
	noLeaks(t)
	s := &siege{t: t, key: NewKey(), next: make(chan struct{})}
	wire := Wire{Key: s.key, HandshakeTimeout: testDeadline, OnRefuse: func(error) { s.refused.Add(1) }}
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	for i := range 6 {
		w := serveSocket(t, wire, "worker-"+string(rune('1'+i)))
		if i == 0 {
			s.target = w.listener
		}
		conn, err := wire.Dial(cl.ctx(), w.member.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cl.c.AddWorker(cl.ctx(), conn); err != nil {
			t.Fatal(err)
		}
	}
	m := newFC1()
	cl.place(m)
	s.train(cl, m)
	s.record()
	return s, cl, m
}

// record listens to an honest client.
func (s *siege) record() {
	s.t.Helper()
	c, err := net.Dial("tcp", s.target.Addr())
	if err != nil {
		s.t.Fatal(err)
	}
	tap := &recorder{Conn: c}
	ctx, cancel := bounded()
	defer cancel()
	client, err := secure(ctx, tap, s.key, roleClient)
	if err != nil {
		s.t.Fatal(err)
	}
	client.Close()
	s.recorded = bytes.Clone(tap.sent.Bytes())
}

// train makes a step; after some it makes products only, since rounding grows
// with every update.
func (s *siege) train(cl *cluster, m *toyModel) {
	s.t.Helper()
	defer s.tick()
	s.step++
	if s.step <= 50 {
		cl.train(m, s.step, s.step)
	} else if _, _, err := cl.product(m, coded.Forward, 50, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *siege) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = make(chan struct{})
}

// trainUntil trains, at least a step, until the attack is over.
func (s *siege) trainUntil(cl *cluster, m *toyModel, over <-chan struct{}) {
	s.t.Helper()
	for {
		s.train(cl, m)
		select {
		case <-over:
			return
		default:
		}
	}
}

// relieved waits until the worker has got rid of all attackers, and has counted
// so many refusals.
func (s *siege) relieved(want int64) error {
	ctx, cancel := bounded()
	defer cancel()
	for len(s.target.entry.slots) > 0 || s.refused.Load() < want {
		if ctx.Err() != nil {
			return fmt.Errorf("%d are still waited for, %d of %d were refused", len(s.target.entry.slots), s.refused.Load(), want)
		}
		runtime.Gosched()
	}
	return nil
}

// undisturbed trains on and checks that the weights are right and that no
// worker has been lost.
func (s *siege) undisturbed(cl *cluster, m *toyModel) {
	s.t.Helper()
	s.train(cl, m)
	cl.settle(m.layer.Name)
	if err := cl.fetched(m); err != nil {
		s.t.Error(err)
	}
	for {
		select {
		case e := <-cl.events:
			if e.State == StateFailed || e.State == StateLeft {
				s.t.Errorf("%s %s: %s", e.Worker, e.State, e.Reason)
			}
		default:
			return
		}
	}
}
