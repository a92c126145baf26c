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
//     alone: a proof can neither be replayed, nor relayed, nor reflected. After
//     the proofs, segments take the place of TLS records (see below).
//
//   - A frame is a length, a msgpack header and raw little-endian tensors; and a
//     CRC-32C, where no segments vouch for the bytes. Every size is bounded
//     before memory is taken for it.
//
//   - Membership is memberlist (the SWIM protocol: Das, Gupta, Motivala, DSN
//     2002), wrapped: immutable snapshots, a fresh identity per process, and a
//     loop that looks for seeds and lost members for ever, so that partitions of
//     any length heal.
//
//   - Cut silences the sockets of a process for a time, and WorkerConfig.Tamper
//     loses or changes answers: faults for tests.
//
//   - OnEvent, OnRound and OnTask, the Stats of both sides and LinkStats tell whoever
//     watches what happens; nothing here knows what they are shown by.
//
//   - Worker holds shards and computes; Coordinator is the coded.Executor that
//     drives them, as the next section says.
//
// # Segments
//
// A TLS record holds 16 KiB, and every byte of it is copied twice on its way to
// a tensor. A segment holds 128 KiB, and is sealed from, and opened into, the
// memory of the tensor itself: a length and the AES-128-GCM of the bytes. For
// each direction there is a secret
//
//	s_0 = HKDF-SHA256(exporter', salt = HKDF(key), role)
//	k_i = HKDF-Expand(s_i, "coda segment key"),  s_i+1 = HKDF-Expand(s_i, "coda segment next")
//
// where exporter' is another value of the handshake's exporter, and k_i is the
// key of the segments i*2^20 to (i+1)*2^20-1. The nonce is the number of the
// segment, the additional data its length. So:
//
//   - Only the two ends of this handshake have the keys: they need its secrets,
//     which are ephemeral, and the cluster key as well. Who records today and
//     learns the cluster key tomorrow reads nothing.
//   - No pair of key and nonce comes twice: directions and connections differ in
//     their keys, segments in their numbers. So a segment that is changed,
//     dropped, repeated, moved, reflected or of another connection does not
//     open, and the connection ends there. Not a byte is given before its tag
//     has been checked.
//   - A key encrypts at most 2^33 blocks (segmentsPerKey says why).
//   - Whoever cuts the connection between two messages makes it look like a peer
//     that closed it: that is a worker lost, not a wrong result.
//   - Lengths and times can be seen, as in TLS.
//
// # Rounds, updates and repairs
//
// A layer is cut into the n slots of a one-sided code with generator G; the
// worker in slot i (one worker may have several, see Loads) holds the shard F_i = sum_j G_ij W_j. A round is one product,
// cut into chunks. Every chunk needs a set of slots S that decodes it, D G_S = I:
// any k of n for an MDS code. Work is handed out by pull, the chunk with the
// least cover first, and the round ends when each chunk is ready, whoever did
// it; what is still queued is cancelled. So the finished part of a slow worker's
// work counts. An answer that is overdue far beyond what others took is believed
// lost, and is asked for again. A Strategy can be set that does otherwise, for
// comparisons: every slot its own share, backup tasks, ignoring stragglers, or codes
// all of whose results decode together. The simulator, package sim, drives the same
// schedules in virtual time.
//
// Kept operands and updates form one ordered log, which is streamed to each
// worker by a goroutine of its own, from that connection's cursor; what is short and
// follows from an answer, the next task above all, is written by the goroutine that
// reads the answer. An operand and its first tasks leave in one write. A shard's
// version is the number of updates that it has applied; a product is computed at
// the version that it was started at, by workers at most one update behind. A
// worker that the log has left behind, or that is new, is repaired after some
// update t: donors d send their shards straight to it, it takes the combination
//
//	F_m = sum_d c_d F_d,  c = G_m pinv(G_donors)
//
// of least norm, which amplifies rounding least (the repair of an erasure-coded
// store: Dimakis et al., IEEE Trans. Inf. Theory 56(9), 2010), and then applies
// the log from t on. If the norm of c is too large, all slots are encoded anew.
//
// With Verification every answer is tested before it is used, without the weights:
// a coded.Follower follows s_i = F_i^T z for secret signs z by the same updates, and
// an honest chunk R = X F_i^T has R z = X s_i (Freivalds, IFIP Congress 1977). Who
// answers wrongly, because it lies or because a bit has flipped in its shard, loses
// its shards, is left alone for a time that doubles, and is then repaired. A
// convolution is tested alike, since it is linear in its weights, and so are products
// with coded batches, for which the weights themselves are known, and products of two
// operands that the coordinator has sent, R = A B of which has R z = A (B z) for signs
// of that answer alone. RoundStats tell by how much answers differ from what they should
// be; and, without Verification, by how much those to spare differ from the others.
//
// # Loads
//
// Partial results make good for a worker that is slow for a while; one that is slow for
// long still has to update its shards, alone. So a worker may have several seats
// (WorkerConfig.Seats), each of which holds a slot or is a spare, with shards of its
// own. They share the worker's connection, and one goroutine computes for all of them:
// what the log has for several seats is sent once, with the slots whose shards it is
// for, and a kept operand is released when the last of these is done with it. So an
// operand precedes whatever names it, at every seat; when the connection breaks, all
// seats are lost together, and come back together with their shards; and a seat that is
// quarantined loses its shards alone, which the worker is told to forget.
//
// With n slots for fewer workers, each first seat gets a slot before any second one, the
// slots of a worker lie far apart on the circle of a trigonometric code, and later
// worker w has n_w of them so that a step takes the least time T for which
//
//	n_w u <= v_w T  for all w,  and  sum_w min(n_w p, v_w T - n_w u) >= k p,
//
// where v_w is its speed, work over computing time lately, p the products and u the
// gradients of a slot in a step, as the workers report them: products are pulled by whoever
// has time, updates are made by whoever holds the slot. So that the loss of one worker
// can be borne, nobody has more than n - k where that can be avoided. With
// CoordinatorConfig.Losses the number of slots is free too: as long as k are left when
// that many workers are lost, those that slow workers would hold are left out, and made
// again by repair when workers are lost. A slot moves between two steps, one at a time,
// and anything is changed only if a step would take 1.1 times as long without all of it.
// A seat that is to have it copies the shards from the seat that has it, and follows the
// log, while that goes on answering: no shard is missing at any time, and not a bit
// changes. If the old seat has fallen behind, the slot moves at once, unless the layer
// would be low, and is repaired from others. When a worker is lost its slots go to spare
// seats, those of fast workers first.
//
// # Losses
//
// A connection ends when its machine has been silent for 12 s; a process that is
// stopped is only slow. A worker keeps its shards when its coordinator is gone, and
// brings them back on the next connection. Keep makes the workers keep copies of
// their shards for a checkpoint as well: a coordinator that goes on from it, in the
// same process or in another of the same Run, takes these over (Resume) and sends
// only what nobody has. A round for which too few workers are left waits for those
// that may come back, at most as long as Wait says, and then fails with the names
// of those that are missing.
//
// # What holds
//
// Every wait has a bound or is ended by Close. Nothing of a peer is parsed
// before it has proved the key. A member that the gossip has lost may well be
// alive, and one that it lists may be dead for seconds: it is a hint, and
// connections and deadlines decide.
//
// An Executor's results depend on nothing but the operands and which slots each
// chunk is decoded from: a Recorder notes those choices and the repairs, and a
// Replay gives the same bits. However the workers behave, the coordinator holds
// the operands of the last History updates and of the rounds under way, and a
// worker those of Window updates, or while it is repaired and catches up at most
// 256 updates or 256 MiB; no worker can hold up another.
//
// # What does not
//
// A layer's operands are paired in their order within a training step: the first
// forward operand kept with the first backward one. Without Verification a
// worker that answers wrongly is believed; with it, what workers donate to one
// another is not tested until they answer with it. Momenta are followed, and not
// tested: a wrong one is found by the weights that come of it. Nor are products of
// two operands. Of two workers
// of one name the one that came first stays, as long as it answers. Slots move only
// while a model is trained: not between products without updates.
//
// Whoever holds the key is trusted with the memory limits that the frames have,
// and with the contents of messages. Without a key, on loopback, every local
// user can join. Two messages sent at the same time arrive in either order.
//
// The Executor's methods of a Coordinator belong to one goroutine, its others are
// safe for concurrent use. Conn, Listener and Membership are as their comments
// say; so is a Message that is only read.
package dist
