package dist

import (
	"fmt"
	"maps"
	"slices"
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
