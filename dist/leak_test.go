package dist

import (
	"testing"

	"go.uber.org/goleak"
)

// noLeaks checks when the test, and all that it registered after, is done.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before,
			// Memberlist does not wait for these three on Shutdown; they end by
			// themselves, after a probe's timeout at the latest.
			goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
			goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).handleConn"),
			goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).triggerFunc"),
		)
	})
}
