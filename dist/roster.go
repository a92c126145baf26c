package dist

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

// roster keeps the members as memberlist's callbacks tell of them. The
// callbacks are made under memberlist's lock: they copy, and never wait.
type roster struct {
	snapshot atomic.Pointer[[]Member] // sorted, never written again

	mu        sync.Mutex
	members   map[string]Member        // by ID
	strangers map[string]*VersionError // by ID: those that are kept out for their version
	lost      []string                 // gossip addresses of those that vanished, oldest first
	losses    int                      // how often somebody vanished
	subs      map[chan struct{}]struct{}
	closed    bool
}

// maxLost bounds the addresses of vanished members that are remembered.
const maxLost = 64

func newRoster() *roster {
	r := &roster{members: make(map[string]Member), strangers: make(map[string]*VersionError), subs: make(map[chan struct{}]struct{})}
	r.snapshot.Store(new([]Member))
	return r
}

// NotifyAlive keeps nodes out whose metadata do not make sense, or are of another version.
func (r *roster) NotifyAlive(n *memberlist.Node) error {
	_, err := memberOf(n)
	var other *VersionError
	if errors.As(err, &other) {
		return r.meet(n, other.Theirs)
	}
	return err
}

func (r *roster) NotifyJoin(n *memberlist.Node)   { r.put(n) }
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.put(n) }

func (r *roster) put(n *memberlist.Node) {
	member, err := memberOf(n)
	if err != nil {
		return // NotifyAlive has refused it, and memberlist has logged that
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[member.ID] = member
	r.lost = slices.DeleteFunc(r.lost, func(addr string) bool { return addr == member.GossipAddr })
	r.publish(member, true)
}

func (r *roster) NotifyLeave(n *memberlist.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	member, ok := r.members[n.Name]
	if !ok {
		return
	}
	delete(r.members, n.Name)
	r.losses++
	// Memberlist does not tell here who left and who vanished. One that drained
	// does not come back; any other is worth looking for.
	if !member.Draining && !slices.Contains(r.lost, member.GossipAddr) {
		r.lost = append(r.lost, member.GossipAddr)
		r.lost = r.lost[max(0, len(r.lost)-maxLost):]
	}
	r.publish(member, false)
}

// publish needs mu. It makes a new snapshot with a member in its place, or without
// it. When hundreds join, each hears of each: so the rest is not sorted again.
func (r *roster) publish(member Member, there bool) {
	list := make([]Member, 0, len(r.members))
	for _, other := range *r.snapshot.Load() {
		if other.ID == member.ID {
			continue
		}
		if there && byName(member, other) < 0 {
			list, there = append(list, member), false
		}
		list = append(list, other)
	}
	if there {
		list = append(list, member)
	}
	r.snapshot.Store(&list)
	r.tell()
}

// tell needs mu.
func (r *roster) tell() {
	for ch := range r.subs {
		select {
		case ch <- struct{}{}:
		default: // a notice is waiting already
		}
	}
}

// byName orders members by name, and those of one name by ID.
func byName(a, b Member) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

func (r *roster) subscribe() (<-chan struct{}, func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ch := make(chan struct{}, 1)
	if r.closed {
		close(ch)
		return ch, func() {}
	}
	r.subs[ch] = struct{}{}
	return ch, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drop(ch)
	}
}

func (r *roster) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for ch := range r.subs {
		r.drop(ch)
	}
}

// drop needs mu.
func (r *roster) drop(ch chan struct{}) {
	if _, ok := r.subs[ch]; ok {
		delete(r.subs, ch)
		close(ch)
	}
}

func (r *roster) lossCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses
}

func (r *roster) lostAddrs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lost)
}

// has reports whether a living member has the gossip address.
func (r *roster) has(addr string) bool {
	return slices.ContainsFunc(*r.snapshot.Load(), func(m Member) bool { return m.GossipAddr == addr })
}
