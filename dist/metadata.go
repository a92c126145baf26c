package dist

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"
)

const (
	maxName    = 64  // bytes of a member's name
	maxCluster = 128 // bytes of a cluster's name
)

// nodeMeta is a member's metadata on the wire: msgpack, at most 512 bytes,
// since it rides on every packet about the node.
type nodeMeta struct {
	Version  int     `msgpack:"v"`
	Name     string  `msgpack:"n"`
	Addr     string  `msgpack:"a,omitempty"`
	Role     string  `msgpack:"r"`
	Speed    float64 `msgpack:"s,omitempty"`
	Draining bool    `msgpack:"d,omitempty"`
}

func encodeMeta(m Member) ([]byte, error) {
	if err := checkMember(m); err != nil {
		return nil, err
	}
	b, err := msgpack.Marshal(&nodeMeta{protocolVersion, m.Name, m.Addr, m.Role, m.Speed, m.Draining})
	if err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", m.Name, err)
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("metadata of %s: %d bytes, at most %d", m.Name, len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

func decodeMeta(b []byte) (Member, error) {
	if len(b) > memberlist.MetaMaxSize {
		return Member{}, fmt.Errorf("metadata of %d bytes, at most %d", len(b), memberlist.MetaMaxSize)
	}
	version, err := headerVersion(b)
	if err != nil {
		return Member{}, errors.New("metadata without a version")
	}
	if version != protocolVersion {
		return Member{}, &VersionError{Node: "a node", Addr: "an unknown address", Theirs: version, Ours: protocolVersion}
	}
	if err := checkMsgpack(b); err != nil {
		return Member{}, fmt.Errorf("metadata: %w", err)
	}
	var meta nodeMeta
	if err := msgpack.Unmarshal(b, &meta); err != nil {
		return Member{}, fmt.Errorf("metadata: %w", err)
	}
	m := Member{Name: meta.Name, Addr: meta.Addr, Role: meta.Role, Speed: meta.Speed, Draining: meta.Draining}
	return m, checkMember(m)
}

// checkMember checks what a user, or another node, says about a node.
func checkMember(m Member) error {
	if err := checkName(m.Name); err != nil {
		return err
	}
	if m.Role != RoleWorker && m.Role != RoleCoordinator {
		return fmt.Errorf("member %s: role %.32q, expected %q or %q", m.Name, m.Role, RoleWorker, RoleCoordinator)
	}
	if m.Addr != "" {
		addr, err := netip.ParseAddrPort(m.Addr)
		if err != nil || addr.Port() == 0 || addr.Addr().IsUnspecified() {
			return fmt.Errorf("member %s: data address %.64q, expected ip:port", m.Name, m.Addr)
		}
	}
	if !(m.Speed >= 0) || math.IsInf(m.Speed, 0) {
		return fmt.Errorf("member %s: speed %v, expected a finite number, at least 0", m.Name, m.Speed)
	}
	return nil
}

// checkName keeps names fit for log lines, file names and metric labels.
func checkName(name string) error {
	if name == "" {
		return errors.New("member without a name")
	}
	if len(name) > maxName {
		return fmt.Errorf("member name %.16q... has %d bytes, at most %d", name, len(name), maxName)
	}
	for _, c := range name {
		if c <= ' ' || c > '~' || strings.ContainsRune(`/\"'`, c) {
			return fmt.Errorf("member name %q: %q is not allowed", name, c)
		}
	}
	return nil
}

// memberOf copies a node out of memberlist's hands.
func memberOf(n *memberlist.Node) (Member, error) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return Member{}, err
	}
	m.ID = strings.Clone(n.Name)
	m.GossipAddr = joinAddr(n.Addr, int(n.Port))
	return m, nil
}

func joinAddr(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), fmt.Sprint(port))
}

// labelOf marks every packet of a cluster, so that clusters on one machine do
// not merge even without keys.
func labelOf(cluster string) string { return "coda/1:" + cluster }

func (c MembershipConfig) validate() error {
	var problems []error
	if err := checkMember(Member{Name: c.Name, Role: c.Role, Speed: c.Speed}); err != nil {
		problems = append(problems, err)
	}
	if len(c.Cluster) > maxCluster {
		problems = append(problems, fmt.Errorf("cluster name of %d bytes, at most %d", len(c.Cluster), maxCluster))
	}
	for _, seed := range c.Seeds {
		if err := CheckSeed(seed); err != nil {
			problems = append(problems, fmt.Errorf("seed %w", err))
		}
	}
	if c.RequireSeed && len(c.Seeds) == 0 {
		problems = append(problems, errors.New("a seed is required, but none is given"))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

// advertisedData gives the data address that others use, for a Listener at
// addr on a node that they reach under ip. An advertised ip stands for both.
func advertisedData(addr string, ip net.IP, always bool) (string, error) {
	if addr == "" {
		return "", nil
	}
	bound, err := netip.ParseAddrPort(addr)
	if err != nil || bound.Port() == 0 {
		return "", fmt.Errorf("data address %q, expected the ip:port of a listener", addr)
	}
	if bound.Addr().IsLoopback() && !ip.IsLoopback() {
		return "", fmt.Errorf("data address %s is on loopback, but other machines would look for it at %s", addr, ip)
	}
	if always || bound.Addr().IsUnspecified() {
		return joinAddr(ip, int(bound.Port())), nil
	}
	return netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()).String(), nil
}

// metadata is what memberlist asks this node about itself.
type metadata struct {
	mu      sync.Mutex
	self    Member
	encoded []byte
}

func newMetadata() *metadata { return &metadata{} }

func (d *metadata) set(m Member) error {
	encoded, err := encodeMeta(m)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.self, d.encoded = m, encoded
	return nil
}

func (d *metadata) member() Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self
}

// NodeMeta is at most 512 bytes, as set has checked: memberlist panics if not.
func (d *metadata) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.encoded
}

// Gossip carries the membership and nothing else.

func (*metadata) NotifyMsg([]byte)                {}
func (*metadata) GetBroadcasts(int, int) [][]byte { return nil }
func (*metadata) LocalState(bool) []byte          { return nil }
func (*metadata) MergeRemoteState([]byte, bool)   {}
