package dist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// gossipNet carries memberlist's packets and streams over UDP and TCP. Unlike
// memberlist's own transport it bounds the streams of strangers, keeps the
// cause of a failed bind and ends its dials on Shutdown.
type gossipNet struct {
	advertise netip.AddrPort
	tcp       net.Listener
	udp       *net.UDPConn
	cut       *Cut // nil: none
	entry     *admission
	probe     *probe
	packets   chan *memberlist.Packet // unbuffered, never closed
	streams   chan net.Conn           // unbuffered, never closed

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wg     sync.WaitGroup // both loops
}

const (
	maxStreams   = 128
	streamGrace  = time.Second
	maxPacket    = 64 << 10
	udpBuffer    = 2 << 20
	bindAttempts = 10
)

// listenGossip opens both sockets on one port.
func listenGossip(ctx context.Context, bind, advertise string, key Key, cut *Cut) (*gossipNet, error) {
	host, port, err := splitAddr(bind, DefaultPort)
	if err != nil {
		return nil, fmt.Errorf("gossip %w", err)
	}
	ip, err := resolveOne(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("gossip %w", err)
	}
	if key.IsZero() && !ip.IsLoopback() {
		return nil, fmt.Errorf("gossip on %s: %w", bind, ErrKeyRequired)
	}
	g := &gossipNet{
		cut:     cut,
		entry:   newAdmission(maxStreams, streamGrace),
		probe:   newProbe(),
		packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn),
	}
	if err := g.bind(ctx, netip.AddrPortFrom(ip, port)); err != nil {
		return nil, err
	}
	bound := netip.AddrPortFrom(ip, uint16(g.tcp.Addr().(*net.TCPAddr).Port))
	if g.advertise, err = advertised(ctx, advertise, bound); err != nil {
		return nil, errors.Join(err, g.tcp.Close(), g.udp.Close())
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.wg.Go(g.acceptStreams)
	g.wg.Go(g.readPackets)
	return g, nil
}

// bind takes a port on TCP and then the same on UDP. If any port will do, one
// that is taken on UDP is no obstacle.
func (g *gossipNet) bind(ctx context.Context, addr netip.AddrPort) error {
	tcp, udp := "tcp", "udp"
	if addr.Addr().Is4() {
		tcp, udp = "tcp4", "udp4"
	}
	var lc net.ListenConfig
	for attempt := 1; ; attempt++ {
		ln, err := lc.Listen(ctx, tcp, addr.String())
		if err != nil {
			return fmt.Errorf("gossip: listen on %s (TCP): %w", addr, err)
		}
		port := ln.Addr().(*net.TCPAddr).Port
		conn, err := lc.ListenPacket(ctx, udp, netip.AddrPortFrom(addr.Addr(), uint16(port)).String())
		if err == nil {
			g.tcp, g.udp = ln, conn.(*net.UDPConn)
			return g.growBuffer()
		}
		err = errors.Join(err, ln.Close())
		if addr.Port() != 0 || attempt == bindAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("gossip: listen on %s (UDP): %w", addr, err)
		}
	}
}

// growBuffer asks for room for bursts of packets while the cores are busy.
func (g *gossipNet) growBuffer() error {
	for size := udpBuffer; size >= maxPacket; size /= 2 {
		if g.udp.SetReadBuffer(size) == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("gossip: no receive buffer of %d bytes on %s", maxPacket, g.udp.LocalAddr()),
		g.tcp.Close(), g.udp.Close())
}

// Loopback implements Transport.
func (g *gossipNet) Loopback() bool { return isLoopback(g.tcp.Addr()) }

func (g *gossipNet) acceptStreams() {
	acceptAll(g.ctx, g.cut.listener(g.tcp), func(c net.Conn) {
		if g.probe.took(c) {
			return
		}
		e := g.entry.enter(c)
		if e == nil {
			return
		}
		stream := &gossipStream{Conn: c, release: func() { g.entry.leave(e) }}
		select {
		case g.streams <- stream:
		case <-g.ctx.Done():
			stream.Close()
		}
	})
}

func (g *gossipNet) readPackets() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := g.udp.ReadFrom(buf)
		now := time.Now()
		if errors.Is(err, net.ErrClosed) || g.ctx.Err() != nil {
			return
		}
		if err != nil || n == 0 || g.cut.over() != nil || g.probe.tookPacket(buf[:n]) {
			continue // of no use, or lost; the next read waits
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: now}
		select {
		case g.packets <- packet:
		case <-g.ctx.Done():
			return
		}
	}
}

// gossipStream gives back its place, once, when it is closed.
type gossipStream struct {
	net.Conn
	once    sync.Once
	release func()
}

func (s *gossipStream) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.release)
	return err
}

func (g *gossipNet) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return g.advertise.Addr().AsSlice(), int(g.advertise.Port()), nil
}

func (g *gossipNet) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("gossip to %q: %w", addr, err)
	}
	if g.cut.over() != nil {
		return time.Now(), nil // lost on its way
	}
	_, err = g.udp.WriteToUDPAddrPort(b, to)
	return time.Now(), err
}

func (g *gossipNet) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, a.Addr)
}

func (g *gossipNet) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(g.ctx, timeout)
	defer cancel()
	if err := g.cut.await(ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c = g.cut.conn(c)
	stop := context.AfterFunc(g.ctx, func() { c.Close() })
	return &gossipStream{Conn: c, release: func() { stop() }}, nil
}

func (g *gossipNet) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.DialTimeout(a.Addr, timeout)
}

func (g *gossipNet) PacketCh() <-chan *memberlist.Packet { return g.packets }
func (g *gossipNet) StreamCh() <-chan net.Conn           { return g.streams }

// Shutdown closes the sockets and all streams, and waits for the loops. It may
// be called more than once.
func (g *gossipNet) Shutdown() error {
	g.cancel()
	err := errors.Join(g.tcp.Close(), g.udp.Close())
	g.entry.stop()
	g.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
