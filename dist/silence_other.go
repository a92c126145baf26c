//go:build !linux

package dist

import "syscall"

// boundSilence has no counterpart here: a connection that was cut in the middle
// of a message is given up after Conn.Stall.
func boundSilence(_, _ string, _ syscall.RawConn) error { return nil }
