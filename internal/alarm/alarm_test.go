package alarm

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is what both alarms are.
type clock interface {
	Set(time.Time)
	C() <-chan struct{}
	Stop()
	Close() error
}

func both(t *testing.T) map[string]clock {
	t.Helper()
	exact, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]clock{"exact": exact, "coarse": NewCoarse()}
}

// hear waits for a ring.
func hear(t *testing.T, a clock) {
	t.Helper()
	select {
	case <-a.C():
	case <-time.After(20 * time.Second):
		t.Fatal("no ring")
	}
}

// An alarm rings once for each setting that it is left, and not before its moment.
func TestRings(t *testing.T) {
	for name, a := range both(t) {
		t.Run(name, func(t *testing.T) {
			for _, d := range []time.Duration{300 * time.Microsecond, 0, -time.Hour, 2 * time.Millisecond} {
				at := time.Now().Add(d)
				a.Set(at)
				hear(t, a)
				if early := time.Until(at); early > 0 {
					t.Errorf("set to %v: rings %v early", d, early)
				}
				select {
				case <-a.C():
					t.Errorf("set to %v: rings twice", d)
				default:
				}
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A setting replaces the one before, whichever is sooner, and Stop takes it back.
func TestLastSettingCounts(t *testing.T) {
	for name, a := range both(t) {
		t.Run(name, func(t *testing.T) {
			a.Set(time.Now().Add(time.Hour))
			a.Set(time.Now())
			hear(t, a)
			for _, put := range []func(){a.Stop, func() { a.Set(time.Now().Add(time.Hour)) }} {
				soon := time.Now().Add(time.Millisecond)
				a.Set(soon)
				put()
				replaced := time.Now().Before(soon) // else it may have rung already
				select {
				case <-a.C():
					if replaced {
						t.Error("the setting that was replaced rings")
					}
				case <-time.After(5 * time.Millisecond):
				}
			}
			a.Stop()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A coarse alarm follows the time of a bubble, to the nanosecond.
func TestCoarseInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewCoarse()
		begin := time.Now()
		for range 3 {
			a.Set(time.Now().Add(300 * time.Microsecond))
			<-a.C()
		}
		if took := time.Since(begin); took != 900*time.Microsecond {
			t.Errorf("three rings took %v, want 900µs", took)
		}
	})
}

// BenchmarkLateness tells how late either alarm is when nothing else happens.
func BenchmarkLateness(b *testing.B) {
	exact, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer exact.Close()
	for name, a := range map[string]clock{"exact": exact, "coarse": NewCoarse()} {
		b.Run(name+"/300us", func(b *testing.B) {
			var late time.Duration
			for b.Loop() {
				at := time.Now().Add(300 * time.Microsecond)
				a.Set(at)
				<-a.C()
				late += time.Since(at)
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
		})
	}
}
