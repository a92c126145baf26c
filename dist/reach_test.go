package dist

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReach(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, refused := listenTest(t, Wire{Key: key})
	for range 3 {
		if err := l.Reach(t.Context(), l.Addr()); err != nil {
			t.Errorf("a listener does not reach itself: %v", err)
		}
	}
	honest(t, l, key) // the first that is accepted
	if len(refused) > 0 || l.Refused() > 0 {
		t.Errorf("it has refused itself: %v", <-refused)
	}
}

func TestReachSaysWhatIsInTheWay(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, _ := listenTest(t, Wire{Key: key})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	stranger, _ := listenTest(t, Wire{Key: NewKey()})
	other, _ := listenTest(t, Wire{Key: key})
	served := make(chan error, 1)
	go func() {
		c, err := other.Accept(t.Context())
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()
	for addr, want := range map[string]error{
		closed.Addr().String(): syscall.ECONNREFUSED,
		stranger.Addr():        ErrWrongKey,
		other.Addr():           ErrElsewhere,
	} {
		err := l.Reach(t.Context(), addr)
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "advertised address "+addr+": ") {
			t.Errorf("%v, expected %v of %s", err, want, addr)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Reach(ctx, silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v, expected a deadline", err)
	}
}
