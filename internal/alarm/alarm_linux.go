package alarm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm rings at a moment.
type Alarm struct {
	file  *os.File // read by the goroutine that rings
	conn  syscall.RawConn
	rings chan struct{}
	done  chan struct{} // closed when that goroutine has ended
}

// New returns an alarm that is not set. Close ends it.
func New() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("alarm: %w", os.NewSyscallError("timerfd_create", err))
	}
	// Being non-blocking, the file is waited for by the runtime's poller.
	a := &Alarm{file: os.NewFile(uintptr(fd), "timerfd"), rings: make(chan struct{}, 1), done: make(chan struct{})}
	if a.conn, err = a.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("alarm: %w", errors.Join(err, a.file.Close()))
	}
	go a.run()
	return a, nil
}

// run rings whenever the timer has expired, until its file is closed.
func (a *Alarm) run() {
	defer close(a.done)
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); err != nil {
			return
		}
		ring(a.rings)
	}
}

// Set makes the alarm ring at a moment, at once if that is past, instead of when it
// was set to before.
func (a *Alarm) Set(at time.Time) {
	const soonest = time.Nanosecond // nothing would mean never
	a.arm(max(time.Until(at), soonest))
}

// C gives a value when the alarm rings.
func (a *Alarm) C() <-chan struct{} { return a.rings }

// Stop takes the setting back.
func (a *Alarm) Stop() { a.arm(0) }

func (a *Alarm) arm(in time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(in.Nanoseconds())}
	_ = a.conn.Control(func(fd uintptr) { // refuses when closed
		_ = unix.TimerfdSettime(int(fd), 0, &spec, nil) // fails for what is no timer, or no time
	})
}

// Close ends the alarm, which then never rings.
func (a *Alarm) Close() error {
	err := a.file.Close()
	<-a.done
	if err != nil {
		return fmt.Errorf("alarm: close: %w", err)
	}
	return nil
}
