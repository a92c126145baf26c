package dist

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// memNet is a network in memory, that can be cut, for tests in virtual time.
type memNet struct {
	mu    sync.Mutex
	nodes map[string]*memNode // by address
	cut   func(from, to string) bool
}

// newMemNet is to be called in a bubble of synctest. When all nodes are closed,
// memberlist's probes get the time they need to end.
func newMemNet(t *testing.T) *memNet {
	t.Cleanup(func() { time.Sleep(time.Minute) })
	return &memNet{nodes: make(map[string]*memNode)}
}

// setCut says between which addresses nothing passes; nil heals the network.
func (n *memNet) setCut(cut func(from, to string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
}

// reach gives the node at an address, if there is one, and whether it can be
// reached.
func (n *memNet) reach(from, to string) (*memNode, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[to], n.cut == nil || !n.cut(from, to)
}

// node adds a node, at 10.0.0.i.
func (n *memNet) node(i int) *memNode {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := &memNode{
		net:     n,
		addr:    netip.MustParseAddrPort(memAddr(i)),
		packets: make(chan *memberlist.Packet, 1024),
		streams: make(chan net.Conn),
		done:    make(chan struct{}),
	}
	n.nodes[node.addr.String()] = node
	return node
}

func memAddr(i int) string { return fmt.Sprintf("10.0.0.%d:7946", i) }

type memNode struct {
	net     *memNet
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (m *memNode) loopback() bool { return false }

func (m *memNode) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return m.addr.Addr().AsSlice(), int(m.addr.Port()), nil
}

func (m *memNode) WriteTo(b []byte, addr string) (time.Time, error) {
	if to, ok := m.net.reach(m.addr.String(), addr); to != nil && ok {
		p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(m.addr), Timestamp: time.Now()}
		select {
		case to.packets <- p:
		default: // lost, as in a real network
		}
	}
	return time.Now(), nil
}

func (m *memNode) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return m.WriteTo(b, a.Addr)
}

func (m *memNode) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, ok := m.net.reach(m.addr.String(), addr)
	if ok && to == nil {
		return nil, syscall.ECONNREFUSED
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	here, there := net.Pipe()
	var streams chan net.Conn // nil, so never ready, if there is no way
	var gone chan struct{}
	if ok {
		streams, gone = to.streams, to.done
	}
	select {
	case streams <- there:
		return here, nil
	case <-gone:
		return nil, syscall.ECONNREFUSED
	case <-m.done:
		return nil, net.ErrClosed
	case <-timer.C:
		return nil, syscall.ETIMEDOUT
	}
}

func (m *memNode) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return m.DialTimeout(a.Addr, timeout)
}

func (m *memNode) PacketCh() <-chan *memberlist.Packet { return m.packets }
func (m *memNode) StreamCh() <-chan net.Conn           { return m.streams }

func (m *memNode) Shutdown() error {
	m.once.Do(func() {
		close(m.done)
		m.net.mu.Lock()
		defer m.net.mu.Unlock()
		if m.net.nodes[m.addr.String()] == m {
			delete(m.net.nodes, m.addr.String())
		}
	})
	return nil
}
