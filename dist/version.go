package dist

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
)

// VersionError says that a node of the cluster runs a release that speaks another
// version of the protocol. Neither side takes the other in.
type VersionError struct {
	Node   string // its name
	Addr   string // of its gossip
	Theirs uint64
	Ours   uint64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s at %s speaks version %d of the protocol, this program version %d: the same release is needed on both", e.Node, e.Addr, e.Theirs, e.Ours)
}

// maxStrangers bounds the nodes of other versions that are remembered.
const maxStrangers = 64

// meet notes, once, a node that is kept out for its version. Its name is what another
// program says, of which nothing is known.
func (r *roster) meet(n *memberlist.Node, theirs uint64) *VersionError {
	name := strings.Clone(n.Name[:min(len(n.Name), maxName)])
	if i := strings.LastIndexByte(n.Name, '-'); i > 0 && i <= maxName {
		name = strings.Clone(n.Name[:i]) // without what makes its ID unique
	}
	if checkName(name) != nil {
		name = fmt.Sprintf("%q", name)
	}
	e := &VersionError{Node: name, Addr: joinAddr(n.Addr, int(n.Port)), Theirs: theirs, Ours: protocolVersion}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.strangers[n.Name] == nil && len(r.strangers) < maxStrangers {
		r.strangers[strings.Clone(n.Name)] = e
		r.tell()
	}
	return e
}

// Strangers lists the nodes that are kept out because their release speaks another
// version of the protocol, by name; of very many only some. Those that have gone are
// among them. Subscribe tells of new ones.
func (m *Membership) Strangers() []*VersionError {
	m.roster.mu.Lock()
	defer m.roster.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.roster.strangers), func(a, b *VersionError) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Addr, b.Addr))
	})
}
