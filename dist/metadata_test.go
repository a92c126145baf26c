package dist

import (
	"math"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

func TestMetadataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Member{
			Name:     rapid.StringMatching(`[!#-&(-.0-\[\]-~]{1,64}`).Draw(t, "name"),
			Addr:     rapid.SampledFrom([]string{"", "127.0.0.1:1", "[2001:db8::ffff:ffff:ffff:ffff]:65535"}).Draw(t, "addr"),
			Role:     rapid.SampledFrom([]string{RoleWorker, RoleCoordinator}).Draw(t, "role"),
			Speed:    math.Abs(rapid.Float64Range(0, math.MaxFloat64).Draw(t, "speed")),
			Draining: rapid.Bool().Draw(t, "draining"),
		}
		b, err := encodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > memberlist.MetaMaxSize {
			t.Fatalf("%d bytes", len(b))
		}
		if got, err := decodeMeta(b); err != nil || got != m {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	})
}

func TestMetadataRefuses(t *testing.T) {
	good := Member{Name: "w", Addr: "127.0.0.1:1", Role: RoleWorker, Speed: 1}
	for name, c := range map[string]struct {
		change func(*Member)
		want   string
	}{
		"no name":    {func(m *Member) { m.Name = "" }, "without a name"},
		"long name":  {func(m *Member) { m.Name = strings.Repeat("n", 65) }, "65 bytes, at most 64"},
		"control":    {func(m *Member) { m.Name = "a\nb" }, `'\n' is not allowed`},
		"slash":      {func(m *Member) { m.Name = "../../etc" }, "not allowed"},
		"not ASCII":  {func(m *Member) { m.Name = "é" }, "not allowed"},
		"role":       {func(m *Member) { m.Role = "" }, "role"},
		"host name":  {func(m *Member) { m.Addr = "host:1" }, "expected ip:port"},
		"port 0":     {func(m *Member) { m.Addr = "127.0.0.1:0" }, "expected ip:port"},
		"everywhere": {func(m *Member) { m.Addr = "0.0.0.0:1" }, "expected ip:port"},
		"NaN":        {func(m *Member) { m.Speed = math.NaN() }, "speed NaN"},
		"infinite":   {func(m *Member) { m.Speed = math.Inf(1) }, "speed +Inf"},
		"negative":   {func(m *Member) { m.Speed = -1 }, "speed -1"},
	} {
		m := good
		c.change(&m)
		if _, err := encodeMeta(m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, ours: %v, expected %q in it", name, err, c.want)
		}
		b, err := msgpack.Marshal(&nodeMeta{protocolVersion, m.Name, m.Addr, m.Role, m.Speed, m.Draining})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeMeta(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, a peer's: %v, expected %q in it", name, err, c.want)
		}
		if err := newRoster().NotifyAlive(&memberlist.Node{Name: "x", Meta: b}); err == nil {
			t.Errorf("%s: the peer is let in", name)
		}
	}
	for name, c := range map[string]struct {
		meta []byte
		want string
	}{
		"nothing":     {nil, "without a version"},
		"noise":       {[]byte("hello"), "without a version"},
		"version 2":   {unhex(t, "81a17602"), "version 2 of the protocol, this program version 1"},
		"claims":      {unhex(t, "82a17601a16edbffffffff"), "length"},
		"wrong types": {unhex(t, "82a17601a16e90"), "metadata"},
		"too long":    {make([]byte, memberlist.MetaMaxSize+1), "513 bytes, at most 512"},
	} {
		if _, err := decodeMeta(c.meta); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q in it", name, err, c.want)
		}
	}
}

// The address of those that vanished is remembered, within bounds, until
// somebody lives there again; those that drained are not looked for.
func TestRosterRemembersTheLost(t *testing.T) {
	r := newRoster()
	node := func(id string, port int, draining bool) *memberlist.Node {
		b, err := encodeMeta(Member{Name: id, Role: RoleWorker, Draining: draining})
		if err != nil {
			t.Fatal(err)
		}
		return &memberlist.Node{Name: id, Addr: []byte{10, 0, 0, 1}, Port: uint16(port), Meta: b}
	}
	for i := range maxLost + 10 {
		n := node("a", 1000+i, false)
		r.NotifyJoin(n)
		r.NotifyLeave(n)
		r.NotifyLeave(n) // told twice, it counts once
	}
	lost := r.lostAddrs()
	if len(lost) != maxLost || lost[0] != "10.0.0.1:1010" || r.lossCount() != maxLost+10 {
		t.Errorf("%d addresses from %s on, %d losses", len(lost), lost[0], r.lossCount())
	}
	r.NotifyJoin(node("b", 1010, false))
	if lost := r.lostAddrs(); len(lost) != maxLost-1 || lost[0] != "10.0.0.1:1011" {
		t.Errorf("somebody lives at the address again: %s is first of %d", lost[0], len(lost))
	}
	drained := node("c", 5, true)
	r.NotifyJoin(drained)
	r.NotifyLeave(drained)
	if lost := r.lostAddrs(); lost[len(lost)-1] == "10.0.0.1:5" {
		t.Error("one that drained is looked for")
	}
	if members := *r.snapshot.Load(); len(members) != 1 || members[0].ID != "b" {
		t.Errorf("members are %v", members)
	}
}
