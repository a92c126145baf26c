package dist

// Roles of members.
const (
	RoleWorker      = "worker"
	RoleCoordinator = "coordinator"
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
	Bind      string   // gossip address, TCP and UDP; port 0 takes a free one
	Advertise string   // host or host:port under which others reach this node; empty: where it is bound
	Seeds     []string // host:port of some nodes, tried for ever; they need not be up
	Cluster   string   // nodes of another name are not let in; empty is a name too
	Key       Key      // required off loopback
}
