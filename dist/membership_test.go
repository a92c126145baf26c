package dist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/internal/memnet"
)

// quiet keeps the gossip out of the tests' output.
var quiet = slog.New(slog.DiscardHandler)

func joinTest(t *testing.T, config MembershipConfig) *Membership {
	t.Helper()
	if config.Role == "" {
		config.Role = RoleWorker
	}
	if config.Bind == "" {
		config.Bind = "127.0.0.1:0"
	}
	if config.Log == nil {
		config.Log = quiet
	}
	config.Rand = rand.New(rand.NewPCG(1, 2))
	m, err := Join(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// await waits until m's members have exactly these names.
func await(t *testing.T, m *Membership, names ...string) {
	t.Helper()
	awaitThat(t, m, fmt.Sprint("sees ", names), func() bool { return slices.Equal(namesOf(m), names) })
}

func awaitThat(t *testing.T, m *Membership, what string, holds func() bool) {
	t.Helper()
	changes, stop := m.Subscribe()
	defer stop()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for !holds() {
		select {
		case <-changes:
		case <-limit.C:
			t.Fatalf("%s sees %v; expected that it %s", m.Self().Name, m.Members(), what)
		}
	}
}

func namesOf(m *Membership) []string {
	var names []string
	for _, member := range m.Members() {
		names = append(names, member.Name)
	}
	return names
}

func TestMembersMeetAndLeave(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	c := joinTest(t, MembershipConfig{Name: "c", Role: RoleCoordinator, Key: key})
	seed := []string{c.Self().GossipAddr}
	w1 := joinTest(t, MembershipConfig{Name: "w1", DataAddr: "127.0.0.1:41", Speed: 2, Key: key, Seeds: seed})
	w2 := joinTest(t, MembershipConfig{Name: "w2", DataAddr: "127.0.0.1:42", Key: key, Seeds: seed, RequireSeed: true})
	for _, m := range []*Membership{c, w1, w2} {
		await(t, m, "c", "w1", "w2")
	}
	got := c.Members()[1]
	want := Member{ID: w1.Self().ID, Name: "w1", Addr: "127.0.0.1:41", GossipAddr: w1.Self().GossipAddr, Role: RoleWorker, Speed: 2}
	if got != want || got.ID == "" || got.GossipAddr == got.Addr {
		t.Errorf("c sees %+v, expected %+v", got, want)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := errors.Join(w1.SetDraining(ctx), w1.SetSpeed(ctx, 3)); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, c, "hears of w1's change", func() bool { return c.Members()[1].Draining && c.Members()[1].Speed == 3 })
	if self := w1.Self(); !self.Draining || self.Speed != 3 {
		t.Errorf("w1 sees itself as %+v", self)
	}
	if err := w1.SetSpeed(ctx, -1); err == nil || !w1.Self().Draining {
		t.Errorf("a negative speed: %v", err)
	}

	members := c.Members()
	members[0].Name = "scribble" // the snapshot is the caller's
	if namesOf(c)[0] != "c" {
		t.Error("a caller's change shows in the next snapshot")
	}

	if err := errors.Join(w1.Leave(ctx), w1.Leave(ctx), w1.Close()); err != nil {
		t.Fatal(err)
	}
	await(t, c, "c", "w2")
	await(t, w2, "c", "w2")
	if err := w1.SetDraining(ctx); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetDraining after Leave: %v", err)
	}
	if self := w1.Self(); self.Name != "w1" || self.GossipAddr != want.GossipAddr {
		t.Errorf("after Leave w1 is %+v", self)
	}
}

// When a whole cluster stops at once, the last have nobody to tell: that is no error.
func TestAllLeaveAtOnce(t *testing.T) {
	noLeaks(t)
	first := joinTest(t, MembershipConfig{Name: "w0"})
	all, names := []*Membership{first}, []string{"w0"}
	for _, name := range []string{"w1", "w2", "w3"} {
		all = append(all, joinTest(t, MembershipConfig{Name: name, Seeds: []string{first.Self().GossipAddr}, RequireSeed: true}))
		names = append(names, name)
	}
	for _, m := range all {
		await(t, m, names...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	for _, m := range all {
		if err := m.SetDraining(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range all {
		awaitThat(t, m, "hears that all drain", m.othersLeave)
	}
	problems := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { problems[i] = m.Leave(ctx) })
	}
	wg.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Error(err)
	}
}

// The coordinator is started last, on the address that everybody knows.
func TestSeedThatComesLater(t *testing.T) {
	noLeaks(t)
	addr := freeAddr(t)
	key := NewKey()
	w1 := joinTest(t, MembershipConfig{Name: "w1", Key: key, Seeds: []string{addr}})
	if names := namesOf(w1); !slices.Equal(names, []string{"w1"}) {
		t.Fatalf("alone, w1 sees %v", names)
	}
	w2 := joinTest(t, MembershipConfig{Name: "w2", Key: key, Seeds: []string{addr, w1.Self().GossipAddr}})
	await(t, w1, "w1", "w2")
	// A name stands for all its addresses, whether they answer or not.
	_, port, err := net.SplitHostPort(w1.Self().GossipAddr)
	if err != nil {
		t.Fatal(err)
	}
	w3 := joinTest(t, MembershipConfig{Name: "w3", Key: key, Seeds: []string{"localhost:" + port}, RequireSeed: true})
	await(t, w3, "w1", "w2", "w3")
	// Both list the other, and the seed comes too.
	c := joinTest(t, MembershipConfig{Name: "c", Role: RoleCoordinator, Bind: addr, Key: key, Seeds: []string{w1.Self().GossipAddr}})
	for _, m := range []*Membership{c, w1, w2, w3} {
		await(t, m, "c", "w1", "w2", "w3")
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestStrangersDoNotMerge(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	c := joinTest(t, MembershipConfig{Name: "c", Role: RoleCoordinator, Cluster: "a", Key: key})
	seed := []string{c.Self().GossipAddr}
	for name, config := range map[string]MembershipConfig{
		"other key":     {Cluster: "a", Key: NewKey()},
		"no key":        {Cluster: "a"},
		"other cluster": {Cluster: "b", Key: key},
	} {
		config.Name, config.Role, config.Bind, config.Seeds, config.Log = "x", RoleWorker, "127.0.0.1:0", seed, quiet
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		config.RequireSeed = true
		m, err := Join(ctx, config)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), seed[0]) {
			t.Errorf("%s: %v, expected an error that names %s", name, err, seed[0])
		}
		if err == nil {
			m.Close()
		}
	}
	// Without keys, the cluster's name keeps two apart.
	a := joinTest(t, MembershipConfig{Name: "a", Cluster: "a"})
	joinTest(t, MembershipConfig{Name: "b", Cluster: "b", Seeds: []string{a.Self().GossipAddr}})

	// Noise at both sockets does not disturb.
	for _, network := range []string{"tcp", "udp"} {
		conn, err := net.Dial(network, seed[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{{0}, {244, 200, 1}, {244, 0}, bytes.Repeat([]byte{0xff}, 1400), []byte("GET / HTTP/1.1\r\n\r\n")} {
			conn.Write(b) // the other end may have hung up
		}
		conn.Close()
	}
	joinTest(t, MembershipConfig{Name: "w", Cluster: "a", Key: key, Seeds: seed})
	await(t, c, "c", "w")
	await(t, a, "a")
}

func TestJoinRefuses(t *testing.T) {
	noLeaks(t)
	busy := joinTest(t, MembershipConfig{Name: "busy"}).Self().GossipAddr
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.83.85.80" // nobody else's, who might have the port on TCP
	}
	udp, err := net.ListenPacket("udp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	good := MembershipConfig{Name: "w", Role: RoleWorker, Bind: "127.0.0.1:0", Log: quiet}
	for name, c := range map[string]struct {
		change func(*MembershipConfig)
		is     error
		texts  []string
	}{
		"busy":              {func(c *MembershipConfig) { c.Bind = busy }, syscall.EADDRINUSE, []string{busy}},
		"busy on UDP":       {func(c *MembershipConfig) { c.Bind = udp.LocalAddr().String() }, syscall.EADDRINUSE, []string{udp.LocalAddr().String(), "UDP"}},
		"no key":            {func(c *MembershipConfig) { c.Bind = "0.0.0.0:0" }, ErrKeyRequired, []string{"0.0.0.0:0"}},
		"no key, all":       {func(c *MembershipConfig) { c.Bind = ":0" }, ErrKeyRequired, nil},
		"no key, v6":        {func(c *MembershipConfig) { c.Bind = "[::]:0" }, ErrKeyRequired, nil},
		"bad port":          {func(c *MembershipConfig) { c.Bind = "127.0.0.1:99999" }, nil, []string{"99999"}},
		"advertise nothing": {func(c *MembershipConfig) { c.Advertise = "0.0.0.0" }, nil, []string{"advertise", "0.0.0.0"}},
		"data elsewhere": {func(c *MembershipConfig) {
			c.Bind, c.Key, c.Advertise, c.DataAddr = "0.0.0.0:0", NewKey(), "192.0.2.1", "127.0.0.1:7"
		}, nil, []string{"127.0.0.1:7", "loopback", "192.0.2.1"}},
		"data address": {func(c *MembershipConfig) { c.DataAddr = "host:7" }, nil, []string{"host:7"}},
		"all at once": {func(c *MembershipConfig) {
			c.Name, c.Role, c.Speed, c.Cluster, c.Seeds = "", "boss", -1, strings.Repeat("c", 200), []string{":1", "a:b"}
		}, nil, []string{"name", "200 bytes", ":1", "a:b"}},
		"role":              {func(c *MembershipConfig) { c.Role = "boss" }, nil, []string{`"boss"`, `"worker"`}},
		"name":              {func(c *MembershipConfig) { c.Name = "a b" }, nil, []string{`"a b"`}},
		"seed without port": {func(c *MembershipConfig) { c.Seeds = []string{"h:0"} }, nil, []string{"h:0"}},
		"required nothing":  {func(c *MembershipConfig) { c.RequireSeed = true }, nil, []string{"none is given"}},
	} {
		config := good
		c.change(&config)
		m, err := Join(t.Context(), config)
		if err == nil {
			m.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, expected %v", name, err, c.is)
		}
		for _, text := range c.texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %v, expected %q in it", name, err, text)
			}
		}
	}
}

// With a key a node may be bound anywhere; what it advertises goes for the
// data plane too.
func TestJoinAdvertises(t *testing.T) {
	noLeaks(t)
	m := joinTest(t, MembershipConfig{Name: "w", Bind: "0.0.0.0:0", Advertise: "127.0.0.1", DataAddr: "0.0.0.0:77", Key: NewKey()})
	self := m.Self()
	if self.Addr != "127.0.0.1:77" || !strings.HasPrefix(self.GossipAddr, "127.0.0.1:") || strings.HasSuffix(self.GossipAddr, ":0") {
		t.Errorf("others reach it at %s and %s", self.Addr, self.GossipAddr)
	}
}

// memJoin joins node i of a network in memory.
func memJoin(t *testing.T, n *memnet.Network, i int, name string, seeds ...string) *Membership {
	t.Helper()
	return joinTest(t, MembershipConfig{Name: name, Seeds: seeds, Key: Key{7}, Transport: memNode(n, i)})
}

// A partition that lasts longer than memberlist remembers the dead: the two
// halves have forgotten each other. They meet again by a seed, or, if no seed
// lies across, by the addresses of those that vanished.
func TestPartitionHeals(t *testing.T) {
	for name, across := range map[string][]string{"by a seed": {memAddr(1)}, "by the last known": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkPartition(t, across) })
		})
	}
}

func checkPartition(t *testing.T, across []string) {
	n := newMemNet(t)
	a := memJoin(t, n, 1, "a")
	b := memJoin(t, n, 2, "b", memAddr(1))
	c := memJoin(t, n, 3, "c", across...)
	memJoin(t, n, 4, "d", memAddr(3))
	bridge := memJoin(t, n, 5, "bridge", memAddr(1), memAddr(3))
	await(t, a, "a", "b", "bridge", "c", "d")
	if err := bridge.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a", "b", "c", "d")
	await(t, c, "a", "b", "c", "d")

	left := []string{memAddr(1), memAddr(2)}
	n.Cut(func(from, to string) bool { return slices.Contains(left, from) != slices.Contains(left, to) })
	await(t, a, "a", "b")
	await(t, c, "c", "d")
	time.Sleep(10 * time.Minute) // far more than GossipToTheDeadTime

	n.Cut(nil)
	healed := time.Now()
	for _, m := range []*Membership{a, b, c} {
		await(t, m, "a", "b", "c", "d")
	}
	if took := time.Since(healed); took > 15*time.Second {
		t.Errorf("the halves met after %v, expected at most 15s", took)
	}
}

// A process that dies and comes back is another node, at the same address.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet(t)
		a := memJoin(t, n, 1, "a")
		b := memJoin(t, n, 2, "b", memAddr(1))
		await(t, a, "a", "b")
		old := b.Self()
		b.Close()
		again := memJoin(t, n, 2, "b") // it knows nobody: a has to find it
		if again.Self().ID == old.ID {
			t.Error("the same identity twice")
		}
		for _, m := range []*Membership{again, a} {
			awaitThat(t, m, "sees the new b alone", func() bool {
				members := m.Members()
				return len(members) == 2 && members[1].ID == again.Self().ID
			})
		}
	})
}

func TestCrashIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet(t)
		a := memJoin(t, n, 1, "a")
		b := memJoin(t, n, 2, "b", memAddr(1))
		memJoin(t, n, 3, "c", memAddr(1))
		await(t, a, "a", "b", "c")
		b.Close()
		start := time.Now()
		await(t, a, "a", "c")
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

func TestSubscribe(t *testing.T) {
	r := newRoster()
	first, stop := r.subscribe()
	second, _ := r.subscribe()
	for i := range 3 { // nobody reads: nobody waits, and one notice is kept
		r.mu.Lock()
		r.publish(Member{ID: fmt.Sprint(i)}, true)
		r.mu.Unlock()
	}
	<-first
	select {
	case <-first:
		t.Error("a second notice")
	default:
	}
	stop()
	stop()
	if _, open := <-first; open {
		t.Error("stop did not close the channel")
	}
	r.close()
	<-second
	if _, open := <-second; open {
		t.Error("the end did not close the channel")
	}
	late, stop := r.subscribe()
	if _, open := <-late; open {
		t.Error("a channel after the end is open")
	}
	stop()
}

// Who has found nobody for a while says so, once, and why.
func TestLonelyMemberSaysSo(t *testing.T) {
	for _, c := range []struct {
		seeds []string
		want  int
	}{{[]string{memAddr(9)}, 1}, {[]string{memAddr(2)}, 0}, {nil, 0}} {
		synctest.Test(t, func(t *testing.T) {
			n := newMemNet(t)
			memJoin(t, n, 2, "w2")
			var log strings.Builder
			m := joinTest(t, MembershipConfig{Name: "w1", Seeds: c.seeds, Key: Key{7}, Transport: memNode(n, 1),
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			time.Sleep(time.Hour)
			if err := m.Unreached(); (err != nil) != (c.want > 0) || err != nil && (!strings.Contains(err.Error(), memAddr(9)) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("seeds %v: unreached for %v", c.seeds, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			got := strings.Count(log.String(), `level=WARN msg="nobody has answered yet`)
			if got != c.want || got > 0 && !strings.Contains(log.String(), memAddr(9)) {
				t.Errorf("seeds %v: told %d times, want %d: %s", c.seeds, got, c.want, log.String())
			}
		})
	}
}

// A stranger that comes every second is told of once a minute; others are not hidden by it.
func TestGossipLogRepeatsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		logger := gossipLogger(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 180 {
			logger.Printf("[ERR] memberlist: wrong key from=127.0.0.1:%d", i)
			logger.Printf("[INFO] memberlist: said always")
			time.Sleep(time.Second)
		}
		logger.Print("[ERR] memberlist: something else from=127.0.0.1:1")
		for i := range 10 * maxTold {
			logger.Printf("[WARN] memberlist: made up %d", i)
		}
		for text, want := range map[string]int{"wrong key": 3, "said always": 180, "something else": 1, "made up": 10 * maxTold} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q is logged %d times, want %d", text, got, want)
			}
		}
	})
}

func TestGossipLog(t *testing.T) {
	var out strings.Builder
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	logger := gossipLogger(slog.New(handler))
	for _, line := range []string{"[DEBUG] memberlist: a", "[INFO] memberlist: b", "[WARN] memberlist: c", "[ERR] memberlist: d", "[ERR] e", "f", "[ODD] g", "[", "", "Err: h"} {
		logger.Print(line)
	}
	const want = `level=DEBUG msg=a
level=INFO msg=b
level=WARN msg=c
level=WARN msg=d
level=WARN msg=e
level=INFO msg=f
level=INFO msg="[ODD] g"
level=INFO msg=[
level=INFO msg=""
level=INFO msg="Err: h"
`
	if out.String() != want {
		t.Errorf("logged\n%s, expected\n%s", out.String(), want)
	}
}
