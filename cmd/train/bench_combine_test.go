package main

import (
	"math"
	"testing"
	"time"

	"github.com/coda-ml/coda/internal/kernel"
)

// TestBenchCombine: what is measured is a code's encoding and decoding, and the
// bytes are those that must move.
func TestBenchCombine(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	c, err := newCombineBench(5, 3, 32, pool)
	if err != nil {
		t.Fatal(err)
	}
	clock := &stepping{}
	ticks := func() time.Time { clock.now = clock.now.Add(time.Second); return clock.now }
	row, err := c.measure(t.Context(), &benchCmd{Seconds: 1, Threads: 2, now: ticks})
	if err != nil {
		t.Fatal(err)
	}
	const line = 4e-9 * 1024
	want := combineRow{
		System: "coda", Bench: "combine", N: 5, K: 3, Threads: 2,
		CopyGBs: 64 * line, EncodeGBs: (32 + 5*11) * line, DecodeGBs: (3*11 + 32) * line,
	}
	if math.Abs(row.CopyGBs/want.CopyGBs-1)+math.Abs(row.EncodeGBs/want.EncodeGBs-1)+math.Abs(row.DecodeGBs/want.DecodeGBs-1) > 1e-9 {
		t.Errorf("a second each: %+v, want %+v", row, want)
	}
	for i, v := range c.back.Data {
		if d := math.Abs(float64(v - c.x.Data[i])); !(d < 1e-5) {
			t.Fatalf("element %d decodes to %v, was %v", i, v, c.x.Data[i])
		}
	}
}
