package dist

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Both ends of a connection of the data plane give up on a silent machine.
func TestSilenceIsBounded(t *testing.T) {
	ctx, cancel := bounded()
	defer cancel()
	l, err := Listen(ctx, "127.0.0.1:0", Key{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	dialled, err := Dial(ctx, l.Addr(), Key{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Conn{dialled, <-accepted} {
		if c == nil {
			continue
		}
		if got := userTimeout(t, c); got != silence {
			t.Errorf("%s gives its peer up after %v, want %v", c.LocalAddr(), got, silence)
		}
		c.Close()
	}
}

func userTimeout(t *testing.T, c *Conn) time.Duration {
	t.Helper()
	raw, err := c.raw.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	if err := raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}
