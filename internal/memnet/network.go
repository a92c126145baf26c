package memnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Network is a network in memory. New makes one.
type Network struct {
	mu        sync.Mutex
	nodes     map[string]*Node // by address
	listeners map[string]*Listener
	cut       func(from, to string) bool
}

// New returns a network without nodes.
func New() *Network {
	return &Network{nodes: map[string]*Node{}, listeners: map[string]*Listener{}}
}

// Cut says between which addresses of gossip nothing passes; nil heals the
// network. It must not call the network.
func (n *Network) Cut(cut func(from, to string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// reach gives the node at an address, if there is one, and whether it can be
// reached.
func (n *Network) reach(from, to string) (*Node, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[to], n.cut == nil || !n.cut(from, to)
}

// Listener takes streams of the data plane.
type Listener struct {
	network *Network
	addr    net.Addr
	streams chan net.Conn // unbuffered, never closed
	done    chan struct{} // closed by Close
	once    sync.Once
}

// Listen takes the streams of an address, ip:port, that nobody else has.
func (n *Network) Listen(addr string) (*Listener, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("memnet: listen: %w", err)
	}
	l := &Listener{network: n, addr: net.TCPAddrFromAddrPort(at), streams: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[at.String()] != nil {
		return nil, fmt.Errorf("memnet: listen on %s: %w", at, syscall.EADDRINUSE)
	}
	n.listeners[at.String()] = l
	return l, nil
}

// Addr is where the listener listens.
func (l *Listener) Addr() string { return l.addr.String() }

// Accept waits for a stream.
func (l *Listener) Accept(ctx context.Context) (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends Accept; streams that were taken stay. It may be called more than
// once.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.Addr())
	})
	return nil
}

// Dial connects to a listener.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	here, there := Pipe(&net.TCPAddr{}, l.addr)
	select {
	case l.streams <- there:
		return here, nil
	case <-l.done:
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, fmt.Errorf("memnet: dial %s: %w", addr, context.Cause(ctx))
	}
}
