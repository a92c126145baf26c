package kernel

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coda-ml/coda/internal/steady"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestPool(t testing.TB, threads int) *Pool {
	p := NewPool(threads)
	t.Cleanup(p.Close)
	return p
}

func TestRunCallsEachPartOnce(t *testing.T) {
	for _, threads := range []int{-1, 0, 1, 2, 3, 8} {
		p := newTestPool(t, threads)
		if want := max(threads, 1); p.Threads() != want {
			t.Errorf("Threads() = %d, want %d", p.Threads(), want)
		}
		for _, n := range []int{-1, 0, 1, 2, 3, 100, 1000} {
			calls := make([]atomic.Int32, max(n, 0))
			p.Run(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Fatalf("threads %d: Run(%d) called f(%d) %d times", threads, n, i, got)
				}
			}
		}
	}
}

func TestNilPoolIsSerial(t *testing.T) {
	var p *Pool
	var order []int
	p.Run(4, func(i int) { order = append(order, i) })
	if got := fmt.Sprint(order); got != "[0 1 2 3]" {
		t.Errorf("order %s", got)
	}
	if p.Threads() != 1 {
		t.Errorf("Threads() = %d, want 1", p.Threads())
	}
	p.Close()
}

// TestRunUsesAllGoroutines would hang if the parts did not run side by side.
func TestRunUsesAllGoroutines(t *testing.T) {
	const threads = 4
	p := newTestPool(t, threads)
	for range 20 {
		var meet sync.WaitGroup
		meet.Add(threads)
		p.Run(threads, func(int) {
			meet.Done()
			meet.Wait()
		})
	}
}

func TestConcurrentAndNestedRun(t *testing.T) {
	p := newTestPool(t, 3)
	var total atomic.Int64
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 50 {
				p.Run(5, func(int) {
					p.Run(4, func(int) {
						p.Run(3, func(int) { total.Add(1) })
					})
				})
			}
		})
	}
	callers.Wait()
	if want := int64(6 * 50 * 5 * 4 * 3); total.Load() != want {
		t.Errorf("%d calls, want %d", total.Load(), want)
	}
}

func catch(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func TestPanicComesOutAtTheCaller(t *testing.T) {
	p := newTestPool(t, 3)
	cause := errors.New("bad part")
	for range 50 {
		var after atomic.Bool
		value := catch(func() {
			var meet sync.WaitGroup
			meet.Add(2)
			p.Run(1000, func(i int) {
				if after.Load() {
					t.Error("a part ran after Run had returned")
				}
				if i < 2 { // on two goroutines, of which at least one is the pool's
					meet.Done()
					meet.Wait()
					panic(cause)
				}
			})
		})
		after.Store(true)
		err, ok := value.(error)
		if !ok || !errors.Is(err, cause) {
			t.Fatalf("Run panicked with %v, want %v", value, cause)
		}
	}
	var calls atomic.Int32
	p.Run(10, func(int) { calls.Add(1) })
	if calls.Load() != 10 {
		t.Errorf("after the panics Run made %d calls, want 10", calls.Load())
	}
}

// TestPanicOfAnotherGoroutine lets only the pool's goroutine panic.
func TestPanicOfAnotherGoroutine(t *testing.T) {
	p := newTestPool(t, 2)
	for _, test := range []struct {
		name string
		fail func()
		want any
	}{
		{"value", func() { panic("lost") }, "lost"},
		{"goexit", runtime.Goexit, "runtime.Goexit called"},
	} {
		value := catch(func() {
			var meet sync.WaitGroup
			meet.Add(2)
			caller := goroutineID()
			p.Run(2, func(int) {
				meet.Done()
				meet.Wait()
				if goroutineID() != caller {
					test.fail()
				}
			})
		})
		e, ok := value.(*Panic)
		if !ok || e.Value != test.want || len(e.Stack) == 0 {
			t.Errorf("%s: Run panicked with %v, want a *Panic of %v with a stack", test.name, value, test.want)
		}
	}
	TestRunUsesAllGoroutines(t)
}

func goroutineID() string {
	buf := make([]byte, 32)
	var id string
	fmt.Sscanf(string(buf[:runtime.Stack(buf, false)]), "goroutine %s", &id)
	return id
}

func TestRunAllocatesNothing(t *testing.T) {
	p := newTestPool(t, 2)
	var sum atomic.Int64
	f := func(i int) { sum.Add(int64(i)) }
	p.Run(8, f)
	if got := steady.Allocs(200, func() { p.Run(8, f) }); got > 0 {
		t.Errorf("Run allocates %v times", got)
	}
}

// TestIdlePoolSleeps: goroutines that find nothing to do stop spinning, and get
// up again.
func TestIdlePoolSleeps(t *testing.T) {
	const threads = 3
	p := newTestPool(t, threads)
	for range 3 {
		p.Run(threads, func(int) {})
		deadline := time.Now().Add(10 * time.Second)
		for asleep := 0; asleep < threads-1; runtime.Gosched() {
			p.mu.Lock()
			asleep = p.asleep
			p.mu.Unlock()
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d goroutines asleep after 10 s without work", asleep, threads-1)
			}
		}
		var meet sync.WaitGroup
		meet.Add(threads)
		p.Run(threads, func(int) {
			meet.Done()
			meet.Wait()
		})
	}
}

func TestClosedPoolRunsOnTheCaller(t *testing.T) {
	p := NewPool(4)
	p.Close()
	p.Close()
	n := 0
	p.Run(10, func(int) { n++ })
	if n != 10 {
		t.Errorf("%d calls, want 10", n)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := newTestPool(b, threads)
			f := func(int) {}
			b.ReportAllocs()
			for b.Loop() {
				p.Run(2, f)
			}
		})
	}
}
