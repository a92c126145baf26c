package dist

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/coda-ml/coda/internal/memnet"
)

// newMemNet is to be called in a bubble of synctest. When all nodes are closed,
// memberlist's probes get the time they need to end.
func newMemNet(t *testing.T) *memnet.Network {
	t.Cleanup(func() { time.Sleep(time.Minute) })
	return memnet.New()
}

// memNode adds node i.
func memNode(n *memnet.Network, i int) *memnet.Node {
	return n.Node(netip.MustParseAddrPort(memAddr(i)))
}

func memAddr(i int) string { return fmt.Sprintf("10.0.0.%d:7946", i) }
