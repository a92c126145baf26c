package memnet

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// packetBuffer is how many packets wait for a node; more are lost.
const packetBuffer = 1024

// Node is a gossip node, a transport of memberlist.
type Node struct {
	network *Network
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn // unbuffered, never closed
	done    chan struct{} // closed by Shutdown
	once    sync.Once
}

var _ memberlist.NodeAwareTransport = (*Node)(nil)

// Node adds a node, in the place of one that had the address.
func (n *Network) Node(addr netip.AddrPort) *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := &Node{
		network: n,
		addr:    addr,
		packets: make(chan *memberlist.Packet, packetBuffer),
		streams: make(chan net.Conn),
		done:    make(chan struct{}),
	}
	n.nodes[addr.String()] = node
	return node
}

// Loopback tells whether the node's address is one that other machines cannot
// reach.
func (m *Node) Loopback() bool { return m.addr.Addr().IsLoopback() }

// FinalAdvertiseAddr is the node's address, whatever is asked for.
func (m *Node) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return m.addr.Addr().AsSlice(), int(m.addr.Port()), nil
}

// WriteTo sends a packet. It is lost where there is no way, nobody, or no room.
func (m *Node) WriteTo(b []byte, addr string) (time.Time, error) {
	if to, ok := m.network.reach(m.addr.String(), addr); to != nil && ok {
		p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(m.addr), Timestamp: time.Now()}
		select {
		case to.packets <- p:
		default: // lost, as in a real network
		}
	}
	return time.Now(), nil
}

// WriteToAddress is WriteTo: names do not matter.
func (m *Node) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return m.WriteTo(b, a.Addr)
}

// DialTimeout connects to another node's StreamCh. Across a cut it waits until
// the time is over.
func (m *Node) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, ok := m.network.reach(m.addr.String(), addr)
	if ok && to == nil {
		return nil, syscall.ECONNREFUSED
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var streams chan net.Conn // nil, so never ready, if there is no way
	var gone chan struct{}
	var here, there net.Conn
	if ok {
		streams, gone = to.streams, to.done
		here, there = Pipe(net.TCPAddrFromAddrPort(m.addr), net.TCPAddrFromAddrPort(to.addr))
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

// DialAddressTimeout is DialTimeout: names do not matter.
func (m *Node) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return m.DialTimeout(a.Addr, timeout)
}

// PacketCh gives the packets that arrive.
func (m *Node) PacketCh() <-chan *memberlist.Packet { return m.packets }

// StreamCh gives the streams that others have dialled.
func (m *Node) StreamCh() <-chan net.Conn { return m.streams }

// Shutdown takes the node off the network. It may be called more than once.
func (m *Node) Shutdown() error {
	m.once.Do(func() {
		close(m.done)
		m.network.mu.Lock()
		defer m.network.mu.Unlock()
		if m.network.nodes[m.addr.String()] == m {
			delete(m.network.nodes, m.addr.String())
		}
	})
	return nil
}
