package dist

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
)

// BenchmarkSmallRound is a round of 6 chunks on 8 workers over TLS on loopback,
// whose products take next to nothing: it is the price of its messages. The
// processor's time, of both sides together, says more than that of the clock.
func BenchmarkSmallRound(b *testing.B) {
	const n, k, chunks, in, out, rows = 8, 6, 6, 60, 72, 4
	ctx, cancel := bounded()
	defer cancel()
	c, err := NewCoordinator(CoordinatorConfig{Slots: n, Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	wire := Wire{Key: NewKey()}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range n {
		w := serveSocket(b, wire, fmt.Sprintf("worker-%d", i+1))
		conn, err := wire.Dial(ctx, w.member.Addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.AddWorker(ctx, conn); err != nil {
			b.Fatal(err)
		}
	}
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: n, K: k}, chunks, in, out), 1)
	if err := c.Place(ctx, m.layer, m.state); err != nil {
		b.Fatal(err)
	}
	x := m.random(rows, in)
	used := processorTime(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		smallRound(b, c, coded.Round{Layer: "fc1", Product: coded.Forward, Step: i + 1, Operand: x})
	}
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(c.Stats().Overdue), "overdue")
}

func smallRound(b *testing.B, c *Coordinator, round coded.Round) {
	b.Helper()
	ctx, cancel := bounded()
	defer cancel()
	r, err := c.Start(ctx, round)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Release()
	if _, err := r.Wait(ctx); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
