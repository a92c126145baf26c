package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/internal/alarm"
)

// Each request has a slot of its own, and what it waited for one counts.
func TestRequestsWaitForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 10 * time.Millisecond
		made := requests[int]{slots: []int{1, 2}, rate: 100, n: 400, seed: 1, clock: alarm.NewCoarse()}
		var mu sync.Mutex
		busy := map[int]bool{}
		began := time.Now()
		times, err := made.serve(t.Context(), func(_ context.Context, slot, _ int) error {
			mu.Lock()
			if busy[slot] {
				t.Errorf("slot %d serves two at a time", slot)
			}
			busy[slot] = true
			mu.Unlock()
			time.Sleep(took)
			mu.Lock()
			busy[slot] = false
			mu.Unlock()
			return nil
		})
		if err != nil || len(times) != made.n {
			t.Fatalf("%d times, %v", len(times), err)
		}
		least, most := math.Inf(1), 0.0
		for _, s := range times {
			least, most = min(least, s), max(most, s)
		}
		// Half of the slots' time is asked for: some requests wait, most do not.
		if math.Abs(least-took.Seconds()) > 1e-9 || !(most > 1.5*took.Seconds()) {
			t.Errorf("times from %v to %v s, want from %v and some that waited", least, most, took)
		}
		if rate := float64(made.n+warmUpRequests) / time.Since(began).Seconds(); math.Abs(rate/made.rate-1) > 0.15 {
			t.Errorf("%v requests a second, want %v", rate, made.rate)
		}
	})
}

// Without a rate the next request comes when the last is served.
func TestRequestsOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := requests[int]{slots: []int{1}, n: 5, clock: alarm.NewCoarse()}
		times, err := made.serve(t.Context(), func(context.Context, int, int) error { time.Sleep(time.Second); return nil })
		for _, s := range times {
			if s != 1 {
				t.Errorf("times %v, %v: want a second each", times, err)
			}
		}
	})
}

func TestRequestsEnd(t *testing.T) {
	var calls atomic.Int32
	made := requests[int]{slots: []int{1}, n: 100, clock: alarm.NewCoarse()}
	_, err := made.serve(t.Context(), func(context.Context, int, int) error {
		if calls.Add(1) == 3 {
			return errBroken
		}
		return nil
	})
	// The error is seen at the latest when the next slot is waited for twice.
	if !errors.Is(err, errBroken) || calls.Load() > 10 {
		t.Errorf("%v after %d calls, want the error of the third", err, calls.Load())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if _, err := made.serve(ctx, func(context.Context, int, int) error { return nil }); !errors.Is(err, errInterrupted) {
		t.Errorf("%v, want the context's error", err)
	}
}
