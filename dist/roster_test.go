package dist

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"
)

// Whatever joins, changes and leaves in whatever order, the snapshot holds who
// is there, sorted, and earlier snapshots stay as they were.
func TestRosterIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRoster()
		there := map[string]Member{}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			before := *r.snapshot.Load()
			kept := slices.Clone(before)
			id := fmt.Sprintf("id-%d", rapid.IntRange(0, 9).Draw(t, "id"))
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			meta, err := encodeMeta(Member{Name: name, Role: RoleWorker})
			if err != nil {
				t.Fatal(err)
			}
			port := rapid.IntRange(1, 9).Draw(t, "port")
			node := &memberlist.Node{Name: id, Addr: []byte{10, 0, 0, 1}, Port: uint16(port), Meta: meta}
			if rapid.Bool().Draw(t, "leaves") {
				r.NotifyLeave(node)
				delete(there, id)
			} else {
				r.NotifyJoin(node)
				there[id] = Member{ID: id, Name: name, Role: RoleWorker, GossipAddr: joinAddr(node.Addr, port)}
			}
			want := slices.SortedFunc(maps.Values(there), byName)
			if got := *r.snapshot.Load(); !slices.Equal(got, want) {
				t.Fatalf("members %v, want %v", got, want)
			}
			if !slices.Equal(before, kept) {
				t.Fatal("an earlier snapshot has changed")
			}
		}
	})
}

// A node of another version is kept out, told of once with both versions, and
// remembered within bounds, whatever it calls itself.
func TestRosterKeepsOtherVersionsOut(t *testing.T) {
	r := newRoster()
	m := &Membership{roster: r}
	changes, stop := r.subscribe()
	defer stop()
	node := func(name string) *memberlist.Node {
		return &memberlist.Node{Name: name, Addr: []byte{10, 0, 0, 1}, Port: 7946, Meta: unhex(t, "81a17602")}
	}
	for range 2 {
		err := r.NotifyAlive(node("worker-2-0a1b2c3d4e5f"))
		want := "worker-2 at 10.0.0.1:7946 speaks version 2 of the protocol, this program version 1"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("error %v, want one with %q", err, want)
		}
	}
	if <-changes; len(changes) > 0 || len(m.Strangers()) != 1 || len(m.Members()) > 0 {
		t.Errorf("%d more notices, strangers %v, members %v; want the one stranger", len(changes), m.Strangers(), m.Members())
	}
	for _, name := range []string{"", "-", "a\nb-1", strings.Repeat("n", 1000)} {
		if err := r.NotifyAlive(node(name)); err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 250 {
			t.Errorf("node %.20q: error %v, want one short line", name, err)
		}
	}
	for i := range 2 * maxStrangers {
		if r.NotifyAlive(node(fmt.Sprint("w-", i))) == nil {
			t.Errorf("node w-%d is let in", i)
		}
	}
	if n := len(m.Strangers()); n != maxStrangers {
		t.Errorf("%d strangers are remembered, want %d", n, maxStrangers)
	}
}
