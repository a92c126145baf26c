package main

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// TestBenchWire: all three ways carry tensors, and the rates are those of the
// clock: a second for a turn, whatever it took.
func TestBenchWire(t *testing.T) {
	clock := &stepping{}
	ticks := func() time.Time { clock.now = clock.now.Add(time.Second); return clock.now }
	const values, turn = 100_000, 3
	row, err := wireBench(t.Context(), &benchCmd{Seconds: 1, now: ticks}, values, turn)
	if err != nil {
		t.Fatal(err)
	}
	const each = 4e-9 * values * turn
	off := math.Abs(row.RawGBs-each) + math.Abs(row.PlainGBs-each) + math.Abs(row.TLSGBs-each)
	if off > 1e-9 || row.Ratio != 1 {
		t.Errorf("a second each: %+v, want %v GB/s and a ratio of 1", row, each)
	}
	if row.RawCPU < 0 || row.TLSCPU < 0 || row.CPURatio < 0 {
		t.Errorf("processor time %+v, want no negative values", row)
	}
}

func TestBenchWireEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	turns := 0
	b := &benchCmd{Seconds: 3600, now: func() time.Time {
		if turns++; turns == 20 {
			cancel(stopped)
		}
		return time.Time{}
	}}
	if _, err := wireBench(ctx, b, 1000, 2); err == nil {
		t.Error("an ended context did not end the benchmark")
	}
}
