package dist

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Member is a node of the cluster, as its gossip describes it.
type Member struct {
	ID         string  // unique, new for every process
	Name       string  // given by the user; a process that comes back has the same
	Addr       string  // data plane, host:port; empty if the node does not listen
	GossipAddr string  // host:port
	Role       string  // RoleWorker or RoleCoordinator
	Speed      float64 // long-run speed class, relative; 0 if unknown
	Draining   bool    // finishes its work and is about to leave
}

// MembershipConfig says how a node joins its cluster.
type MembershipConfig struct {
	Name      string   // of this node, for people; required
	Role      string   // RoleWorker or RoleCoordinator; required
	Speed     float64  // see Member
	DataAddr  string   // where this node's Listener listens; empty if it has none
	Bind      string   // gossip address, TCP and UDP; port 0 takes a free one; no port: DefaultPort
	Advertise string   // host or host:port under which others reach this node; empty: where it is bound
	Seeds     []string // host:port of some nodes, tried for ever; they need not be up
	Cluster   string   // nodes of another name are not let in; empty is a name too
	Key       Key      // required off loopback

	// RequireSeed makes Join wait, until its context ends, for a seed to answer.
	RequireSeed bool
	// Log hears of what the gossip does. Nil means slog.Default.
	Log *slog.Logger
	// Rand draws the jitter of the rejoin loop; it is used by one goroutine.
	// Nil means one with a random seed.
	Rand *mrand.Rand
	// Cut, if not nil, can silence the gossip, for tests.
	Cut *Cut

	// Transport carries the gossip in the place of sockets: in memory, say. It
	// is shut down with the membership. Bind and Advertise say nothing then.
	Transport Transport
}

// Transport is what memberlist needs of a network, and whether that ends at this
// machine: then a crash is looked for more often.
type Transport interface {
	memberlist.NodeAwareTransport
	Loopback() bool
}

// Membership is this node's view of who belongs to the cluster. It is a hint:
// a crash is seen after seconds, so that it never decides a round. Its methods
// may be called from any goroutine.
type Membership struct {
	id     string
	log    *slog.Logger
	timing gossipTiming
	list   *memberlist.Memberlist

	transport Transport

	roster *roster
	rejoin *rejoiner

	metaMu sync.Mutex // held while the metadata changes and is announced
	meta   *metadata

	ending context.Context // ends when Leave or Close begins
	cancel context.CancelFunc
	wg     sync.WaitGroup // the rejoin loop

	endMu sync.Mutex
	ended bool
}

// gossipTiming is what distinguishes a machine from a network of them.
type gossipTiming struct {
	first, most time.Duration // pauses of the rejoin loop
	linger      time.Duration // how long a node that left goes on gossiping
}

var (
	localTiming = gossipTiming{first: 50 * time.Millisecond, most: time.Second, linger: 200 * time.Millisecond}
	lanTiming   = gossipTiming{first: 200 * time.Millisecond, most: 3 * time.Second, linger: time.Second}
)

// gossipConfig gives memberlist's settings. Training keeps every core busy, so
// that probes get more time than memberlist's own presets give them.
func gossipConfig(loopback bool) (*memberlist.Config, gossipTiming) {
	if loopback {
		c := memberlist.DefaultLocalConfig()
		c.ProbeTimeout = 500 * time.Millisecond
		c.SuspicionMult = 4
		c.TCPTimeout = 3 * time.Second
		c.RetransmitMult = 4 // as on a network: of 2 some of fifty nodes do not hear of a newcomer
		return c, localTiming
	}
	c := memberlist.DefaultLANConfig()
	c.TCPTimeout = 3 * time.Second
	c.ProbeTimeout = time.Second
	c.ProbeInterval = 2 * time.Second
	return c, lanTiming
}

// firstRound bounds how long Join waits for seeds that it does not require.
const firstRound = time.Second

// Join starts gossiping and looks for the seeds, once before it returns and
// then for ever. Without RequireSeed a cluster of one is no error: the others
// may come later. The context is for Join alone; Leave or Close end the
// membership.
func Join(ctx context.Context, config MembershipConfig) (*Membership, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	transport := config.Transport
	if transport == nil {
		sockets, err := listenGossip(ctx, config.Bind, config.Advertise, config.Key, config.Cut)
		if err != nil {
			return nil, fmt.Errorf("join: %w", err)
		}
		transport = sockets
	}
	m, err := newMembership(ctx, config, transport)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), transport.Shutdown())
	}
	m.ending, m.cancel = context.WithCancel(context.Background())
	m.wg.Go(func() { m.rejoin.run(m.ending) })
	if err := m.awaitSeeds(ctx, config.RequireSeed); err != nil {
		return nil, errors.Join(fmt.Errorf("join: %w", err), m.Close())
	}
	return m, nil
}

func newMembership(ctx context.Context, config MembershipConfig, transport Transport) (*Membership, error) {
	ip, port, err := transport.FinalAdvertiseAddr("", 0)
	if err != nil {
		return nil, err
	}
	dataAddr, err := advertisedData(config.DataAddr, ip, config.Advertise != "")
	if err != nil {
		return nil, err
	}
	m := &Membership{
		id:     config.Name + "-" + randomHex(6),
		log:    config.Log,
		roster: newRoster(),
		meta:   newMetadata(),

		transport: transport,
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	m.log = m.log.With("component", "gossip", "node", config.Name, "id", m.id)
	self := Member{ID: m.id, Name: config.Name, Addr: dataAddr, Role: config.Role, Speed: config.Speed}
	if err := m.meta.set(self); err != nil {
		return nil, err
	}
	gossip, timing := gossipConfig(transport.Loopback())
	m.timing = timing
	gossip.Name = m.id
	gossip.Label = labelOf(config.Cluster)
	gossip.Transport = transport
	gossip.AdvertiseAddr, gossip.AdvertisePort = ip.String(), port
	gossip.BindPort = DefaultPort
	gossip.EnableCompression = false // a few hundred bytes: not worth the work
	gossip.Delegate, gossip.Events, gossip.Alive = m.meta, m.roster, m.roster
	gossip.Logger = gossipLogger(m.log)
	if !config.Key.IsZero() {
		if gossip.SecretKey, err = config.Key.derive("coda 1 gossip"); err != nil {
			return nil, err
		}
	}
	if m.list, err = memberlist.Create(gossip); err != nil {
		return nil, err
	}
	m.rejoin = newRejoiner(m.list, m.roster, config, timing, m.log, joinAddr(ip, port))
	return m, nil
}

func (m *Membership) awaitSeeds(ctx context.Context, require bool) error {
	if !require {
		timer := time.NewTimer(firstRound)
		defer timer.Stop()
		select {
		case <-m.rejoin.tried:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	select {
	case <-m.rejoin.joined:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no seed of %q has answered: %w", m.rejoin.seeds, errors.Join(context.Cause(ctx), m.rejoin.failure()))
	}
}

// Members lists the nodes that the gossip believes alive, this one included,
// by name and then by ID. The slice is the caller's. A process that came back
// may be listed beside its former self for some seconds.
func (m *Membership) Members() []Member { return slices.Clone(*m.roster.snapshot.Load()) }

// Self is this node as the others see it.
func (m *Membership) Self() Member {
	for _, member := range *m.roster.snapshot.Load() {
		if member.ID == m.id {
			return member
		}
	}
	// Only after Leave: the roster holds this node from Join on.
	member := m.meta.member()
	member.GossipAddr = m.rejoin.self
	return member
}

// Unreached tells why no seed has answered yet; nil if one has, somebody else came, or
// there are no seeds.
func (m *Membership) Unreached() error {
	if !m.rejoin.lonely() {
		return nil
	}
	return m.rejoin.failure()
}

// Subscribe gives a channel that receives after Members has changed. It holds
// one notice, however many changes there were: read Members on each. The
// channel is closed by stop and by the end of the membership.
func (m *Membership) Subscribe() (changes <-chan struct{}, stop func()) {
	return m.roster.subscribe()
}

// SetDraining tells the others that this node takes no new work. It returns
// when the news has gone out, or with an error when that takes too long.
func (m *Membership) SetDraining(ctx context.Context) error {
	return m.announce(ctx, func(self *Member) { self.Draining = true })
}

// SetSpeed tells the others this node's speed class.
func (m *Membership) SetSpeed(ctx context.Context, speed float64) error {
	return m.announce(ctx, func(self *Member) { self.Speed = speed })
}

// maxAnnounce bounds what waits for the gossip: it needs a few of its rounds.
const maxAnnounce = 5 * time.Second

func (m *Membership) announce(ctx context.Context, change func(*Member)) error {
	m.metaMu.Lock()
	defer m.metaMu.Unlock()
	self := m.meta.member()
	change(&self)
	if err := m.meta.set(self); err != nil {
		return err
	}
	wait, err := remaining(ctx, maxAnnounce)
	if err == nil && m.ending.Err() != nil {
		err = net.ErrClosed
	}
	if err == nil {
		err = m.list.UpdateNode(wait)
	}
	if err != nil {
		return fmt.Errorf("announce %s: %w", m.id, err)
	}
	return nil
}

// remaining is the time that ctx leaves, at most limit. Memberlist takes times.
func remaining(ctx context.Context, limit time.Duration) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	return max(limit, time.Millisecond), nil
}

// Leave tells the others that this node goes, waits briefly for the news to
// spread, and closes the membership in any case.
func (m *Membership) Leave(ctx context.Context) error {
	m.endMu.Lock()
	defer m.endMu.Unlock()
	if m.ended {
		return nil
	}
	m.cancel() // do not come back
	wait, err := remaining(ctx, maxAnnounce)
	if err == nil {
		if m.othersLeave() {
			wait = min(wait, m.timing.most) // they may be gone before they have heard it
		}
		if err = m.list.Leave(wait); m.othersLeave() {
			err = nil // nobody is left who would need the news
		}
	}
	if err == nil && len(m.Members()) > 0 {
		timer := time.NewTimer(m.timing.linger)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err != nil {
		err = fmt.Errorf("leave %s: %w", m.id, err)
	}
	return errors.Join(err, m.end())
}

// othersLeave tells whether all others, if there are any, are about to leave.
func (m *Membership) othersLeave() bool {
	return !slices.ContainsFunc(m.Members(), func(other Member) bool { return other.ID != m.id && !other.Draining })
}

// Close ends the membership at once: to the others it looks like a crash. It
// may be called more than once, and after Leave.
func (m *Membership) Close() error {
	m.endMu.Lock()
	defer m.endMu.Unlock()
	return m.end()
}

// end needs endMu.
func (m *Membership) end() error {
	if m.ended {
		return nil
	}
	m.ended = true
	m.cancel()
	err := m.list.Shutdown() // ends the joins that the loop may be in
	m.wg.Wait()
	m.roster.close()
	return err
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
