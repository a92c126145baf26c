package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func addr(i int) string { return fmt.Sprintf("10.0.0.%d:7946", i) }

func node(n *Network, i int) *Node { return n.Node(netip.MustParseAddrPort(addr(i))) }

func TestPackets(t *testing.T) {
	n := New()
	a, b := node(n, 1), node(n, 2)
	send := func(want int) {
		t.Helper()
		if _, err := a.WriteTo([]byte("hi"), addr(2)); err != nil {
			t.Fatal(err)
		}
		if got := len(b.PacketCh()); got != want {
			t.Errorf("%d packets have come, want %d", got, want)
		}
	}
	send(1)
	n.Cut(func(from, to string) bool { return from == addr(1) && to == addr(2) })
	send(1)
	n.Cut(nil)
	for range packetBuffer {
		send(min(len(b.PacketCh())+1, packetBuffer))
	}
	p := <-b.PacketCh()
	if string(p.Buf) != "hi" || p.From.String() != addr(1) {
		t.Errorf("packet %q from %v", p.Buf, p.From)
	}
	b.Shutdown()
	b.Shutdown()
	send(packetBuffer - 1)
}

func TestGossipStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b := node(n, 1), node(n, 2)
		dial := func() (net.Conn, error) { return a.DialTimeout(addr(2), time.Second) }
		if _, err := dial(); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("nobody takes the stream: error %v", err)
		}
		go func() { <-b.StreamCh() }()
		if c, err := dial(); err != nil || c.RemoteAddr().String() != addr(2) || c.LocalAddr().String() != addr(1) {
			t.Errorf("dialled: %v", err)
		}
		n.Cut(func(from, to string) bool { return true })
		if _, err := dial(); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("across a cut: error %v", err)
		}
		n.Cut(nil)
		waiting := make(chan error)
		go func() {
			_, err := dial()
			waiting <- err
		}()
		synctest.Wait()
		b.Shutdown()
		if err := <-waiting; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the node goes meanwhile: error %v", err)
		}
		if _, err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody there: error %v", err)
		}
		again := node(n, 2)
		b.Shutdown() // that of the former must not take the new one away
		go func() { <-again.StreamCh() }()
		if _, err := dial(); err != nil {
			t.Errorf("the node has come back: error %v", err)
		}
	})
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		if _, err := n.Dial(t.Context(), addr(1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: error %v", err)
		}
		l, err := n.Listen(addr(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen(addr(1)); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: error %v", err)
		}
		if _, err := n.Listen("here"); err == nil {
			t.Error("an address without a port was taken")
		}
		go func() {
			if c, err := n.Dial(t.Context(), l.Addr()); err == nil {
				c.Write([]byte("x"))
			}
		}()
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if k, err := c.Read(make([]byte, 4)); k != 1 || err != nil {
			t.Errorf("read %d bytes, %v", k, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Dial(short, addr(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: error %v", err)
		}
		if _, err := l.Accept(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody dials: error %v", err)
		}
		l.Close()
		if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: error %v", err)
		}
		if _, err := n.Listen(addr(1)); err != nil {
			t.Errorf("the address is free again: error %v", err)
		}
	})
}

func TestLoopback(t *testing.T) {
	n := New()
	if node(n, 1).Loopback() || !n.Node(netip.MustParseAddrPort("127.0.0.1:7")).Loopback() {
		t.Error("10.0.0.1 is not loopback, 127.0.0.1 is")
	}
}
