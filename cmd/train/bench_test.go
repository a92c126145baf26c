package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

func TestBenchTable(t *testing.T) {
	out := &bytes.Buffer{}
	table := &benchTable{w: out}
	for _, row := range []any{
		gemmRow{System: "coda", Bench: "gemm", M: 64, N: 10, K: 100, Threads: 2, GFlops: 12.34567},
		gemmRow{System: "coda", Bench: "gemm", M: 2048, N: 2048, K: 2048, Threads: 2, GFlops: 1234.5},
		modelRow{System: "coda", Bench: "train", Model: "convnet", Batch: 64, Threads: 2, ImagesPerS: 1e-7},
	} {
		if err := table.add(row); err != nil {
			t.Fatal(err)
		}
	}
	const want = `      bench          m          n          k    threads     gflops
       gemm         64         10        100          2      12.35
       gemm       2048       2048       2048          2       1234
      bench      model      batch    threads  images_per_s
      train    convnet         64          2         1e-07
`
	if out.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", out, want)
	}
}

// On a narrow terminal heads and rows are folded alike.
func TestBenchTableFolds(t *testing.T) {
	out := &bytes.Buffer{}
	table := &benchTable{w: out, columns: 40}
	for range 2 {
		if err := table.add(gemmRow{System: "coda", Bench: "gemm", M: 64, N: 10, K: 100, Threads: 2, GFlops: 12.34567}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `      bench          m          n
              k    threads     gflops
       gemm         64         10
            100          2      12.35
       gemm         64         10
            100          2      12.35
`
	if out.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", out, want)
	}
}

// stepping is a clock that a repetition moves on.
type stepping struct{ now time.Time }

func TestRate(t *testing.T) {
	clock := &stepping{}
	b := &benchCmd{Seconds: 3, now: func() time.Time { return clock.now }}
	calls := 0
	got, err := b.rate(t.Context(), 10, func() error {
		calls++
		clock.now = clock.now.Add(500 * time.Millisecond)
		return nil
	})
	// 1 s to warm up, 3 s that count.
	if err != nil || got != 20 || calls != 8 {
		t.Errorf("rate %v after %d calls, %v; want 20 after 8", got, calls, err)
	}
	b.Seconds = 0.1
	calls = 0
	_, err = b.rate(t.Context(), 10, func() error { calls++; clock.now = clock.now.Add(time.Second); return nil })
	if err != nil || calls != 6 {
		t.Errorf("%d calls of what takes long, %v; want 1 to warm up and 5", calls, err)
	}
}

func TestRateEnds(t *testing.T) {
	clock := &stepping{}
	b := &benchCmd{Seconds: 3, now: func() time.Time { return clock.now }}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	tick := func() error { clock.now = clock.now.Add(time.Second); return nil }
	if _, err := b.rate(ctx, 1, tick); !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want %v", err, errInterrupted)
	}
	if _, err := b.rate(t.Context(), 1, func() error { return errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want %v", err, errBroken)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{5, 1, 9}); got != 5 {
		t.Errorf("median %v, want 5", got)
	}
}
