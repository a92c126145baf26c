package dist

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundSilence makes the kernel give a connection up when the other machine has
// acknowledged nothing for silence. Keep-alive probes alone do not: while sent data
// wait for an acknowledgement there are none, and retransmissions back off to
// minutes, so that a connection cut in the middle of a message would outlive the
// cut by as much (RFC 5482). A listening socket hands the setting on to what it accepts.
func boundSilence(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds())))
	})
	if err != nil {
		return err
	}
	return set
}
