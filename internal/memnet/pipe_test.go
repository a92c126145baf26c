package memnet

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func testPipe() (net.Conn, net.Conn) { return Pipe(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2}) }

// What goes in comes out, in order, whatever the sizes of the pieces.
func TestPipeCarriesBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := make([]byte, 5*pipeBuffer+17)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	a, b := testPipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer a.Close()
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(2*pipeBuffer))
			if m, err := a.Write(rest[:n]); m != n || err != nil {
				t.Errorf("wrote %d of %d: %v", m, n, err)
				return
			}
			rest = rest[n:]
		}
	})
	var got bytes.Buffer
	sizes := rand.New(rand.NewPCG(3, 4))
	for {
		p := make([]byte, 1+sizes.IntN(pipeBuffer))
		n, err := b.Read(p)
		got.Write(p[:n])
		if err == io.EOF {
			break
		}
		if err != nil || n == 0 {
			t.Fatalf("read %d bytes: %v", n, err)
		}
	}
	wg.Wait()
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes came out, not the %d that went in", got.Len(), len(want))
	}
	if a.LocalAddr() != b.RemoteAddr() || b.LocalAddr() != a.RemoteAddr() || a.LocalAddr() == a.RemoteAddr() {
		t.Error("the addresses of the two ends do not agree")
	}
}

// A deadline ends a wait that began before it was set, and can be taken back.
func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testPipe()
		begin := time.Now()
		a.SetReadDeadline(begin.Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("read: error %v after %v, want a deadline exceeded after 1s", err, time.Since(begin))
		}
		a.SetDeadline(time.Time{})
		ended := make(chan error)
		go func() {
			_, err := a.Write(make([]byte, pipeBuffer+1))
			ended <- err
		}()
		synctest.Wait()
		a.SetWriteDeadline(time.Unix(1, 0))
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: error %v, want a deadline exceeded", err)
		}
		a.SetWriteDeadline(time.Time{})
		if _, err := io.CopyN(io.Discard, b, pipeBuffer); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Write([]byte{1}); n != 1 || err != nil {
			t.Errorf("after the deadline was taken back: %d bytes, %v", n, err)
		}
	})
}

// Closing an end wakes both; what was written before is still read.
func TestPipeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := testPipe()
		ended := make(chan error, 2)
		go func() {
			_, err := a.Read(make([]byte, 1))
			ended <- err
		}()
		go func() {
			_, err := b.Write(make([]byte, pipeBuffer+1))
			ended <- err
		}()
		if _, err := a.Write([]byte("last")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.Close()
		a.Close()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("what waited ends with %v, want a closed pipe", err)
			}
		}
		if got, err := io.ReadAll(b); string(got) != "last" || err != nil {
			t.Errorf("read %q, %v after the close, want what was written before", got, err)
		}
		for what, err := range map[string]error{
			"write to a closed end":    second(b.Write([]byte{1})),
			"write by a closed end":    second(a.Write([]byte{1})),
			"read by a closed end":     second(a.Read(make([]byte, 1))),
			"deadline of a closed end": a.SetDeadline(time.Now()),
		} {
			if !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: error %v, want a closed pipe", what, err)
			}
		}
	})
}

func second(_ int, err error) error { return err }

func BenchmarkPipe(b *testing.B) {
	here, there := testPipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := io.Copy(there, there); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			b.Error(err)
		}
	})
	p := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := here.Write(p); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(here, p); err != nil {
			b.Fatal(err)
		}
	}
	here.Close()
	wg.Wait()
}
