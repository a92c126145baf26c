package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// partition is how long the network of TestPartition is cut. By hand:
//
//	go test ./cmd/train -run TestPartition -v -partition 60s -timeout 5m
var partition = flag.Duration("partition", 2*time.Second, "how long TestPartition cuts its network")

// healTime is how long workers may take to come back after a long partition.
const healTime = 15 * time.Second

// switches is a network of its own: two bridges with a cable between them, and
// machines, each a network namespace, at either one.
type switches struct {
	t    *testing.T
	hub  string // namespace of the bridges
	tool string // ip
}

func newSwitches(t *testing.T) *switches {
	t.Helper()
	tool, err := exec.LookPath("ip")
	if err != nil || os.Getuid() != 0 {
		t.Skipf("network namespaces need root and the ip command: uid %d, %v", os.Getuid(), err)
	}
	n := &switches{t: t, tool: tool, hub: fmt.Sprintf("coda%d-hub", os.Getpid())}
	n.namespace(n.hub)
	for _, side := range []string{"left", "right"} {
		n.ip("-n", n.hub, "link", "add", side, "type", "bridge")
		n.ip("-n", n.hub, "link", "set", side, "up")
	}
	n.ip("-n", n.hub, "link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
	n.ip("-n", n.hub, "link", "set", "cable0", "master", "left", "up")
	n.ip("-n", n.hub, "link", "set", "cable1", "master", "right", "up")
	return n
}

// namespace makes a network namespace that the test removes. A container may
// give root no right to: then there is nothing to test with.
func (n *switches) namespace(name string) {
	n.t.Helper()
	if out, err := exec.Command(n.tool, "netns", "add", name).CombinedOutput(); err != nil {
		n.t.Skipf("no network namespaces here: %v: %s", err, out)
	}
	n.t.Cleanup(func() { n.ip("netns", "del", name) })
	n.ip("-n", name, "link", "set", "lo", "up")
}

func (n *switches) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command(n.tool, args...).CombinedOutput(); err != nil {
		n.t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// machine attaches a machine with the address 10.99.0.host to a bridge.
func (n *switches) machine(host int, bridge string) (namespace string) {
	n.t.Helper()
	namespace = fmt.Sprintf("coda%d-%d", os.Getpid(), host)
	n.namespace(namespace)
	port := fmt.Sprintf("port%d", host)
	n.ip("-n", n.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
	n.ip("-n", n.hub, "link", "set", port, "master", bridge, "up")
	n.ip("-n", namespace, "addr", "add", machineAddr(host)+"/24", "dev", "eth0")
	n.ip("-n", namespace, "link", "set", "eth0", "up")
	return namespace
}

func machineAddr(host int) string { return fmt.Sprintf("10.99.0.%d", host) }

// cut takes the cable between the bridges away; heal puts it back.
func (n *switches) cut()  { n.ip("-n", n.hub, "link", "set", "cable0", "down") }
func (n *switches) heal() { n.ip("-n", n.hub, "link", "set", "cable0", "up") }

// train starts the command on a machine.
func (n *switches) train(namespace, program string, args ...string) *process {
	n.t.Helper()
	return spawn(n.t, *partition+3*processTime, n.tool, append([]string{"ip", "netns", "exec", namespace, program}, args...)...)
}

// cluster starts four workers, two at either bridge, and at the left one a run
// with the given settings, and waits until all have answered.
func (n *switches) cluster(settings ...string) (run *process) {
	t := n.t
	t.Helper()
	t.Chdir(t.TempDir())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "train")
	if err := os.Symlink(exe, program); err != nil {
		t.Fatal(err)
	}
	if _, status := start(t, "keygen", "key").wait(); status != exitDone {
		t.Fatalf("keygen: exit status %d", status)
	}
	seed := machineAddr(1) + ":7946"
	home := n.machine(1, "left")
	for w := 1; w <= 4; w++ {
		bridge := "left"
		if w > 2 {
			bridge = "right"
		}
		p := n.train(n.machine(10+w, bridge), program, "worker", "--key=key", "--join="+seed,
			fmt.Sprintf("--bind=%s:7946", machineAddr(10+w)), fmt.Sprintf("--name=worker-%d", w))
		p.until("gossip at")
	}
	args := append(longRun, "--workers=0", "--min-workers=4", "--key=key", "--bind="+seed, "--join="+seed)
	run = n.train(home, program, append(args, settings...)...)
	run.untilAnswered(1, 2, 3, 4)
	return run
}

// A coordinator is cut off from half of its workers, with half of the cluster on
// either side, and finds them again when the network heals: nobody is restarted,
// and the steps go on meanwhile.
func TestPartition(t *testing.T) {
	n := newSwitches(t)
	p := n.cluster("--k=2")
	if steps := n.partition(p); steps < 2 {
		t.Errorf("%d steps were made during the partition", steps)
	}
}

// Where the rest is too few, --wait bridges the partition: the step that it hit
// is made when it has healed.
func TestPartitionIsWaitedFor(t *testing.T) {
	n := newSwitches(t)
	n.partition(n.cluster("--k=3", fmt.Sprintf("--wait=%v", *partition+processTime)))
	text, err := os.ReadFile("a/metrics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"event":"restored"`) {
		t.Error("the run went back to a checkpoint, although nobody has died")
	}
}

// partition cuts the cable, waits until the workers of the other bridge have
// answered again after it was put back, and ends the run. It returns how many
// steps were seen meanwhile.
func (n *switches) partition(run *process) (steps int) {
	t := n.t
	t.Helper()
	healed := make(chan time.Time, 1)
	n.cut()
	time.AfterFunc(*partition, func() {
		n.heal()
		healed <- time.Now()
	})
	var since time.Time
	for since.IsZero() {
		run.until(`"event":"step"`)
		steps++
		select {
		case since = <-healed:
		default:
		}
	}
	run.untilAnswered(3, 4)
	took := time.Since(since)
	t.Logf("cut for %v, %d steps until it healed; everyone was back %v after that", *partition, steps, took.Round(10*time.Millisecond))
	if *partition >= time.Minute && took > healTime {
		t.Errorf("everyone was back after %v, want %v", took, healTime)
	}
	run.signal(syscall.SIGINT)
	if _, status := run.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, run.stderr.String())
	}
	return steps
}

// untilAnswered reads events until results of all the given workers were used.
func (p *process) untilAnswered(workers ...int) {
	p.t.Helper()
	for len(workers) > 0 {
		var e struct{ Answered []int }
		line := p.until(`"event":"step"`)
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatal(err)
		}
		workers = slices.DeleteFunc(workers, func(w int) bool { return slices.Contains(e.Answered, w) })
	}
}
