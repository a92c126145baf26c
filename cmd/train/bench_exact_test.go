package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded/exact"
)

// exactPair returns both ends of a connection.
func exactPair(t *testing.T) (near, far *exactConn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	a, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := listener.Accept()
	if err != nil {
		t.Fatal(errors.Join(err, a.Close()))
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return &exactConn{c: a}, &exactConn{c: b}
}

func TestExactWire(t *testing.T) {
	near, far := exactPair(t)
	x := &exact.Vector{Low: []uint16{1, 65535, 3}, Carry: []int{1}}
	y := newVector(exactPiece) // of several pieces
	y.Low[len(y.Low)-1] = 77
	sent := make(chan error, 2)
	var length int64
	go func() {
		n, err := near.send(exactFrame{kind: exactTask, task: 16, nanos: 1 << 40, vectors: []*exact.Vector{x, y}})
		length = n
		sent <- err
		_, err = near.send(exactFrame{kind: exactCancel, task: 3})
		sent <- errors.Join(err, near.c.Close())
	}()
	got := []*exact.Vector{{Low: make([]uint16, 3), Carry: []int{0, 2}}, newVector(exactPiece)}
	f, err := far.receive(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if f.kind != exactTask || f.task != 16 || f.nanos != 1<<40 || len(f.vectors) != 2 || length != far.received {
		t.Errorf("received %+v, %d bytes of %d", f, far.received, length)
	}
	for i, v := range []*exact.Vector{x, y} {
		if !slices.Equal(v.Low, got[i].Low) || !slices.Equal(v.Carry, got[i].Carry) {
			t.Errorf("vector %d has changed on its way", i)
		}
	}
	if f, err := far.receive(got); err != nil || f.kind != exactCancel || f.task != 3 || len(f.vectors) != 0 {
		t.Errorf("received %+v, %v; want a cancellation", f, err)
	}
	if _, err := far.receive(got); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestExactWireErrors: frames that are not what they should be.
func TestExactWireErrors(t *testing.T) {
	frame := func(vectors, elements, carries uint32) []byte {
		p := make([]byte, 0, 64)
		for _, v := range []uint32{1, 2, vectors, 0, 0, elements, carries} {
			p = binary.LittleEndian.AppendUint32(p, v)
		}
		return append(p, make([]byte, 4+4)...) // two elements and a checksum
	}
	for want, p := range map[string][]byte{
		"frame of 2 vectors, want at most 1":           frame(2, 2, 0),
		"vector of 3 elements with 0 carries, want 2":  frame(1, 3, 0),
		"vector of 2 elements with 3 carries, want 2":  frame(1, 2, 3),
		"vector of 4294967295 elements with 0 carries": frame(1, 1<<32-1, 0),
		"checksum 00000000, computed":                  frame(1, 2, 0),
		"unexpected EOF":                               frame(1, 2, 0)[:30],
	} {
		near, far := exactPair(t)
		go func() {
			_, _ = near.c.Write(p) // the reader gives up in the middle
			_ = near.c.Close()
		}()
		if _, err := far.receive([]*exact.Vector{newVector(2)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		_ = far.c.Close()
	}
}

// exactTeam returns workers that are goroutines of the test.
func exactTeam(t *testing.T, n int, shape [3]int) *exactWorkers {
	w := &exactWorkers{shape: shape}
	var team sync.WaitGroup
	for range n {
		near, far := exactPair(t)
		w.conns = append(w.conns, near)
		team.Go(func() {
			cmd := &exactCmd{Rows: shape[0], Inner: shape[1], Cols: shape[2]}
			// A worker whose connection is broken says so; the round is what counts.
			_ = cmd.serve(far, make([]byte, exactToken))
		})
		if err := near.read(make([]byte, exactToken)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
		team.Wait()
	})
	return w
}

// TestExactRound: rounds give products, also when as many workers are lost as the
// code bears, and fail with their names when more are.
func TestExactRound(t *testing.T) {
	const n, need = 5, 3
	shape := [3]int{2, 3, 4}
	rng := rand.New(rand.NewPCG(3, 4))
	w := exactTeam(t, n, shape)
	var a, b, results, want []*exact.Vector
	for range n {
		x, y, z := newVector(6), newVector(12), newVector(8)
		for _, v := range []*exact.Vector{x, y} {
			for i := range v.Low {
				v.Low[i] = uint16(rng.Uint32())
			}
		}
		if err := exact.Multiply(nil, z, *x, *y, 2, 3, 4); err != nil {
			t.Fatal(err)
		}
		a, b, want, results = append(a, x), append(b, y), append(want, z), append(results, newVector(8))
	}
	for lost := range n - need + 2 {
		if lost > 0 {
			if err := w.conns[lost-1].c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // tasks that were cancelled must not confuse the next round
			r := &exactRound{workers: w, order: rng.Perm(n), need: need, threads: 2, a: a, b: b, results: results, now: time.Now}
			got, err := r.run(t.Context())
			r.settle()
			if lost > n-need {
				if err == nil || !strings.Contains(err.Error(), "fewer than 3 workers are left: worker ") {
					t.Errorf("%d workers lost: %v", lost, err)
				}
				continue
			}
			if err != nil || len(got.have) != need {
				t.Fatalf("%d workers lost: answers of %v, %v", lost, got.have, err)
			}
			for _, task := range got.have {
				if !slices.Equal(results[task].Low, want[task].Low) || !slices.Equal(results[task].Carry, want[task].Carry) {
					t.Errorf("%d workers lost: the result of task %d is wrong", lost, task)
				}
			}
		}
	}
}

// TestExactRoundEnds: a round ends with its context, and names who is missing.
func TestExactRoundEnds(t *testing.T) {
	w := &exactWorkers{}
	for range 2 { // nobody is at the other end
		near, _ := exactPair(t)
		w.conns = append(w.conns, near)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	v := []*exact.Vector{newVector(1), newVector(1)}
	r := &exactRound{workers: w, order: []int{0, 1}, need: 2, threads: 2, a: v, b: v, results: v, now: time.Now}
	r.sendLock.Lock()
	cancel(errInterrupted)
	_, err := r.run(ctx)
	r.sendLock.Unlock()
	r.settle()
	if !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "0 answers, want 2") {
		t.Errorf("error %v, want %v", err, errInterrupted)
	}
}

// TestDirectProduct: what the benchmark is checked against, checked itself.
func TestDirectProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const size = 300
	x, y := randomBytes(rng, size*size), randomBytes(rng, size*size)
	for i := range size { // the largest sums
		x[i], y[i*size] = 255, 255
	}
	got := directProduct(nil, x, y, size)
	for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {299, 299}, {250, 17}} {
		want := uint64(0)
		for k := range size {
			want += uint64(x[at[0]*size+k]) * uint64(y[k*size+at[1]])
		}
		if want %= 65537; got[at[0]*size+at[1]] != want {
			t.Errorf("element %v is %d, want %d", at, got[at[0]*size+at[1]], want)
		}
	}
}
