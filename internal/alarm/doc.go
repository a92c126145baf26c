// Package alarm waits for moments as exactly as the kernel can. A Go program that
// has nothing else to do waits for its timers in epoll_wait, whose time-outs are
// whole milliseconds: a timer of 0.3 ms is late by 0.7 ms. A device that takes
// 0.3 ms for a piece of work cannot be imitated so, nor requests that come at
// given moments.
//
//	a, err := alarm.New()
//	defer a.Close()
//	for a.Set(end); time.Now().Before(end); {
//		select {
//		case <-a.C():
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// On Linux an alarm is a timerfd, whose expiry wakes epoll_wait itself; elsewhere
// it is a timer of Go's.
//
// # What does not hold
//
// An alarm may ring early, when an earlier setting had just expired: whoever waits
// looks at the clock. How late it is depends on who else wants the processor.
//
// One goroutine at a time sets and closes an alarm; another may wait for it.
package alarm
