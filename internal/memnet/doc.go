// Package memnet is a network in memory: gossip nodes that memberlist runs on,
// and streams for the data plane. Tests cut and heal it, in virtual time if they
// like; benchmarks put hundreds of nodes into one process.
//
//	network := memnet.New()
//	node := network.Node(netip.MustParseAddrPort("10.0.0.1:7946")) // a memberlist transport
//	listener, err := network.Listen("10.0.0.1:9000")
//	conn, err := network.Dial(ctx, "10.0.0.1:9000")                // a net.Conn
//
// Packets may be lost when a node does not read them, as in a real network;
// streams lose nothing, and hold up whoever writes faster than the other side
// reads. Both ends of a stream have deadlines, which cost a timer only while
// somebody waits.
//
// Everything here is safe for concurrent use.
package memnet
