package dist

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

func gossipTest(t *testing.T) *gossipNet {
	t.Helper()
	g, err := listenGossip(t.Context(), "127.0.0.1:0", "", NewKey(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A node that reaches itself keeps the probes to itself; what others send meanwhile,
// and afterwards, is passed on.
func TestGossipReach(t *testing.T) {
	noLeaks(t)
	g := gossipTest(t)
	for range 3 {
		if err := g.Reach(t.Context()); err != nil {
			t.Fatalf("a node does not reach itself: %v", err)
		}
	}
	select {
	case p := <-g.packets:
		t.Errorf("a probe of %d bytes was passed on", len(p.Buf))
	case c := <-g.streams:
		t.Errorf("the connection of a probe was passed on, from %v", c.RemoteAddr())
	default:
	}
	c, err := net.Dial("tcp", g.advertise.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-g.streams
	if s.RemoteAddr().String() != c.LocalAddr().String() {
		t.Errorf("a stream from %v was passed on, want %v", s.RemoteAddr(), c.LocalAddr())
	}
	s.Close()
}

func TestGossipReachSaysWhatIsInTheWay(t *testing.T) {
	noLeaks(t)
	g := gossipTest(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	g.advertise = netip.MustParseAddrPort(closed.Addr().String())
	ctx, cancel := context.WithTimeoutCause(t.Context(), probePause/4, errNothingCame)
	defer cancel()
	err = g.Reach(ctx)
	if err == nil || !strings.HasPrefix(err.Error(), "advertised gossip address "+closed.Addr().String()+": TCP: ") || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("where nobody listens: error %v", err)
	}

	other, err := net.Listen("tcp", "127.0.0.1:0") // it neither answers nor is it this node
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	g.advertise = netip.MustParseAddrPort(other.Addr().String())
	ctx, cancel = context.WithTimeoutCause(t.Context(), probePause/4, errNothingCame)
	defer cancel()
	if err := g.Reach(ctx); !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), "UDP: ") {
		t.Errorf("where another node is: error %v, want that and UDP's", err)
	}
}

// In memory there is nothing to try.
func TestReachWithoutSockets(t *testing.T) {
	if err := new(Membership).Reach(t.Context()); err != nil {
		t.Error(err)
	}
}
