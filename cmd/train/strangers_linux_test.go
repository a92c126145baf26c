package main

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// olderRelease gossips as a node whose metadata have another version.
type olderRelease struct{}

func (olderRelease) NodeMeta(int) []byte             { return []byte("\x81\xa1v\x07") } // msgpack: {"v": 7}
func (olderRelease) NotifyMsg([]byte)                {}
func (olderRelease) GetBroadcasts(int, int) [][]byte { return nil }
func (olderRelease) LocalState(bool) []byte          { return nil }
func (olderRelease) MergeRemoteState([]byte, bool)   {}

// joinOlder starts a node of another version, and tells it of others. It returns its address.
func joinOlder(t *testing.T, seeds ...string) string {
	t.Helper()
	config := memberlist.DefaultLocalConfig()
	config.Name, config.Label, config.Delegate = "old-7-0123456789ab", "coda/1:", olderRelease{}
	config.BindAddr, config.BindPort, config.LogOutput = "127.0.0.1", 0, io.Discard
	old, err := memberlist.Create(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := old.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	if _, err := old.Join(seeds); len(seeds) > 0 && err != nil {
		t.Fatal(err)
	}
	return old.LocalNode().Address()
}

// A node of another version that joins is told of with both versions, by the run and by
// its workers, and changes nothing else: the run goes on with the others.
func TestOtherVersionIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	worker, seed := serveWorker(t, "one-1", "127.0.0.1:0", "", "")
	p := start(t, append(longRun, "--workers=0", "--join="+seed, "--min-workers=1", "--k=1", "--n=1")...)
	p.untilAnswered(1)

	joinOlder(t, seed)
	line := p.until(`"worker":"old-7"`)
	if !strings.Contains(line, `"state":"refused"`) || !strings.Contains(line, "it speaks version 7 of the protocol, this program version ") {
		t.Errorf("the run says %s", line)
	}
	p.untilAnswered(1)
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("run: exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
	worker.signal(syscall.SIGINT)
	if _, status := worker.wait(); status != exitDone {
		t.Errorf("worker: exit status %d, want %d", status, exitDone)
	}
	if log := worker.stderr.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "speaks version 7 of the protocol, this program version ") {
		t.Errorf("the worker says %s", log)
	}
}

// Who waits for workers in vain is told that one was there, of another version.
func TestWaitNamesOtherVersion(t *testing.T) {
	c, err := joinCluster(t.Context(), clusterOptions{bind: "127.0.0.1:0", join: []string{joinOlder(t)}, patience: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	changes, stop := c.members.Subscribe()
	defer stop()
	for len(c.members.Strangers()) == 0 {
		select {
		case <-changes:
		case <-time.After(processTime):
			t.Fatal("nobody was met")
		}
	}
	_, err = c.awaitMembers(t.Context(), 1)
	if err == nil || !strings.Contains(err.Error(), "0 of 1 workers have joined: not within 1ns; old-7 at 127.0.0.1:") {
		t.Errorf("error %v, want one that names the node", err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}
