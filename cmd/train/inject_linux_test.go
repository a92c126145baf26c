package main

import (
	"strings"
	"syscall"
	"testing"
)

// A worker whose network is silent for a while is left behind, and is repaired
// over the connection that it had all the time. Another one loses half of its
// answers.
func TestPartitionAndDrop(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, append(longRun, "--inject=partition:3@step=5,for=1s", "--inject=drop:2@p=0.5")...)
	stale := p.until(`"event":"worker","worker":"worker-3"`)
	for strings.Contains(stale, `"joined"`) {
		stale = p.until(`"event":"worker","worker":"worker-3"`)
	}
	if !strings.Contains(stale, `"state":"stale"`) {
		t.Errorf("after the network went silent: %s", stale)
	}
	if back := p.until(`"event":"worker","worker":"worker-3"`); !strings.Contains(back, `"state":"repaired"`) {
		t.Errorf("after it was heard again: %s", back)
	}
	p.until(`"answered":[1,2,3,`)
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
}
