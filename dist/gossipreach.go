package dist

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// reacher is a Transport that can tell whether its advertised address leads to it.
type reacher interface {
	Reach(ctx context.Context) error
}

// Reach connects once to the gossip address that others are told, and sends a packet
// there. The error names the address and, for TCP and UDP each, what is in the way.
// As with Listener.Reach, only the way from this machine to itself is tried. It takes
// at most two seconds.
func (m *Membership) Reach(ctx context.Context) error {
	if t, ok := m.transport.(reacher); ok {
		return t.Reach(ctx)
	}
	return nil
}

// probeTime bounds how long Reach takes, probePause is from one packet to the next.
const (
	probeTime  = 2 * time.Second
	probePause = 200 * time.Millisecond
)

var errNothingCame = errors.New("nothing that was sent there has come back")

// probe is what a node sends to itself in Reach.
type probe struct {
	packet [16]byte      // drawn once, so that one that comes late is known as well
	heard  chan struct{} // capacity 1: the packet has come

	one    sync.Mutex // held by Reach
	mu     sync.Mutex // held while connecting, so that the accepting loop waits for the address
	local  string     // of the connection under way, empty if there is none
	struck bool       // it has come
}

func newProbe() *probe {
	p := &probe{heard: make(chan struct{}, 1)}
	rand.Read(p.packet[:])
	return p
}

// Reach implements reacher.
func (g *gossipNet) Reach(ctx context.Context) error {
	g.probe.one.Lock()
	defer g.probe.one.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errNothingCame)
	defer cancel()
	select {
	case <-g.probe.heard: // of another time
	default:
	}
	var tcp, udp error
	var wg sync.WaitGroup
	wg.Go(func() { tcp = g.reachStream(ctx) })
	wg.Go(func() { udp = g.reachPacket(ctx) })
	wg.Wait()
	if err := errors.Join(tcp, udp); err != nil {
		return fmt.Errorf("advertised gossip address %s: %w", g.advertise, err)
	}
	return nil
}

func (g *gossipNet) reachStream(ctx context.Context) error {
	c, err := g.probe.connect(ctx, g.advertise.String())
	if err != nil {
		return fmt.Errorf("TCP: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, err = c.Read(make([]byte, 1)) // the accepting loop hangs up
	if !g.probe.over() {
		return fmt.Errorf("TCP: %w (%w)", ErrElsewhere, err)
	}
	return nil
}

// connect makes a connection that took knows.
func (p *probe) connect(ctx context.Context, addr string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		p.local, p.struck = c.LocalAddr().String(), false
	}
	return c, err
}

// over forgets the connection, and tells whether it has come.
func (p *probe) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local = ""
	return p.struck
}

func (g *gossipNet) reachPacket(ctx context.Context) error {
	again := time.NewTicker(probePause)
	defer again.Stop()
	for {
		if _, err := g.udp.WriteToUDPAddrPort(g.probe.packet[:], g.advertise); err != nil {
			return fmt.Errorf("UDP: %w", err)
		}
		select {
		case <-g.probe.heard:
			return nil
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("UDP: %w", context.Cause(ctx))
		}
	}
}

// took tells whether an accepted connection is that of a probe, and closes it then.
func (p *probe) took(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.RemoteAddr().String() != p.local {
		return false
	}
	p.struck = true
	c.Close()
	return true
}

// tookPacket tells whether a packet is that of a probe.
func (p *probe) tookPacket(b []byte) bool {
	if !bytes.Equal(b, p.packet[:]) {
		return false
	}
	signal(p.heard)
	return true
}
