//go:build unix

// Package fulldisk lets tests see what remains when a disk is full.
//
//	release := fulldisk.Limit(t, 100_000)
//	err := write() // syscall.EFBIG beyond 100,000 bytes of a file
//	release()
//
// The limit is one of the process: tests that use it do not run in parallel.
package fulldisk

import (
	"os/signal"
	"syscall"
	"testing"
)

// Limit makes the system refuse what would make a file longer than so many
// bytes, in the middle of a write, until release is called.
func Limit(t testing.TB, bytes int) (release func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	limited := old
	assign(&limited.Cur, bytes)
	signal.Ignore(syscall.SIGXFSZ) // which comes with the error
	set(limited)
	return func() {
		set(old)
		signal.Reset(syscall.SIGXFSZ)
	}
}

// assign hides that a limit's type differs from system to system.
func assign[T int64 | uint64](limit *T, bytes int) { *limit = T(bytes) }
