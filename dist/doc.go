// Package dist runs the rounds of coded layers on a cluster of machines that
// may be slow, freeze, crash and come back. It moves bytes and calls the
// handlers that it was given; what a shard computes, and which answers suffice,
// is said by package coded.
//
// A worker listens, joins the gossip and serves; the coordinator joins too and
// takes in every worker that the gossip names:
//
//	key, err := dist.LoadKey("cluster.key")
//	l, err := dist.Listen(ctx, "10.0.0.2:0", key)
//	m, err := dist.Join(ctx, dist.MembershipConfig{
//		Name: "w1", Role: dist.RoleWorker, Key: key,
//		Bind: "10.0.0.2", DataAddr: l.Addr(), Seeds: []string{"10.0.0.1:7946"},
//	})
//	w, err := dist.NewWorker(dist.WorkerConfig{Name: "w1", Addr: m.Self().Addr, Handlers: handlers})
//	err = w.Serve(ctx, l)
//
// The parts, from below:
//
//   - Key is the secret of a cluster. Sub-keys for gossip and data plane are
//     derived from it by HKDF (RFC 5869).
//
//   - Wire, Listener and Conn carry Messages over TCP with TLS 1.3. The
//     certificates are made in memory and nobody checks them; instead each side
//     sends, before anything else,
//
//     HMAC-SHA256(HKDF(key), role || exporter)
//
//     where the exporter (RFC 8446, section 7.5) belongs to this handshake
//     alone: a proof can neither be replayed, nor relayed, nor reflected.
//
//   - A frame is a length, a msgpack header, raw little-endian tensors and a
//     CRC-32C. Every size is bounded before memory is taken for it.
//
//   - Membership is memberlist (the SWIM protocol: Das, Gupta, Motivala, DSN
//     2002), wrapped: immutable snapshots, a fresh identity per process, and a
//     loop that looks for seeds and lost members for ever, so that partitions of
//     any length heal.
//
//   - Worker and Coordinator hand out the chunks of a round, end it when the
//     decoder has enough, keep shards up to date and repair those that are lost.
//
// # What holds
//
// Every wait has a bound or is ended by Close. Nothing of a peer is parsed
// before it has proved the key. A member that the gossip has lost may well be
// alive, and one that it lists may be dead for seconds: it is a hint, and
// connections and deadlines decide.
//
// # What does not
//
// Whoever holds the key is trusted with the memory limits that the frames have,
// and with the contents of messages. Without a key, on loopback, every local
// user can join. Two messages sent at the same time arrive in either order.
//
// Conn, Listener and Membership are safe for concurrent use as their comments
// say; so is a Message that is only read.
package dist
