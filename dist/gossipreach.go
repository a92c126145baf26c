package dist

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
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

// probe is a Reach under way.
type probe struct {
	one    sync.Mutex // held by Reach
	active atomic.Bool

	mu     sync.Mutex // held while connecting, so that the accepting loop waits for the address
	local  string     // of the connection
	struck bool       // it has come
	packet []byte
	heard  chan struct{} // closed when the packet has come
}

// Reach implements reacher.
func (g *gossipNet) Reach(ctx context.Context) error {
	g.probe.one.Lock()
	defer g.probe.one.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errNothingCame)
	defer cancel()
	p := &g.probe
	p.mu.Lock()
	p.local, p.struck, p.packet, p.heard = "", false, make([]byte, 16), make(chan struct{})
	rand.Read(p.packet)
	p.mu.Unlock()
	p.active.Store(true)
	defer p.active.Store(false)
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
	p := &g.probe
	var d net.Dialer
	p.mu.Lock()
	c, err := d.DialContext(ctx, "tcp", g.advertise.String())
	if err == nil {
		p.local = c.LocalAddr().String()
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("TCP: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, err = c.Read(make([]byte, 1)) // the accepting loop hangs up
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.struck {
		return fmt.Errorf("TCP: %w (%w)", ErrElsewhere, err)
	}
	return nil
}

func (g *gossipNet) reachPacket(ctx context.Context) error {
	again := time.NewTicker(probePause)
	defer again.Stop()
	for {
		if _, err := g.udp.WriteToUDPAddrPort(g.probe.packet, g.advertise); err != nil {
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
	if !p.active.Load() {
		return false
	}
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
	if !p.active.Load() {
		return false
	}
	if !bytes.Equal(b, p.packet) {
		return false
	}
	select {
	case <-p.heard:
	default:
		close(p.heard)
	}
	return true
}
