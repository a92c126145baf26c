package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn/train"
)

// page is a file in memory.
type page struct {
	bytes.Buffer
	closed bool
}

func (p *page) Close() error { p.closed = true; return nil }

func readTrace(t *testing.T, text string) []traceEvent {
	t.Helper()
	var events []traceEvent
	if err := json.Unmarshal([]byte(text), &events); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return events
}

// rowsOf gives the names of the rows.
func rowsOf(events []traceEvent) map[string]int {
	names := map[string]int{}
	for _, e := range events {
		if e.Phase == "M" {
			names[e.Args.(map[string]any)["name"].(string)] = e.Row
		}
	}
	return names
}

// A trace of a step over two workers, whole and cut off.
func TestTraceOfAStep(t *testing.T) {
	var p page
	began := time.Now()
	tl, err := newTimeline(&p, 1, began)
	if err != nil {
		t.Fatal(err)
	}
	memoryRounds(t, tl)
	if err := tl.stepMade(train.StepInfo{Step: 1, Loss: 0.25, Time: time.Since(began)}); err != nil {
		t.Fatal(err)
	}
	cut := p.String() // what a killed run leaves
	tl.round(span{phase: phaseWait, step: 2})
	tl.task(dist.TaskStats{Worker: "late"})
	if err := tl.stepMade(train.StepInfo{Step: 2}); err != nil {
		t.Fatal(err)
	}
	if err := tl.close(); err != nil || !p.closed {
		t.Fatalf("close: %v, file closed: %t", err, p.closed)
	}
	events := readTrace(t, p.String())
	if got := readTrace(t, cut+"]"); len(got) != len(events) {
		t.Errorf("%d events before the end was written, %d after it", len(got), len(events))
	}
	rows := rowsOf(events)
	if len(rows) != 3 || rows["coordinator"] != 0 || rows["worker-1"]+rows["worker-2"] != 3 {
		t.Errorf("rows %v", rows)
	}
	count := map[string]int{}
	end := map[int]float64{} // of the last task on a row
	for _, e := range events {
		count[e.Category]++
		if e.Phase == "X" && (e.At < 0 || e.Duration < 0 || e.Process != 1) {
			t.Errorf("event %+v", e)
		}
		if e.Row > 0 && e.Phase == "X" {
			if e.At < end[e.Row]-1e-3 {
				t.Errorf("%+v begins before %v, the end of the task before", e, end[e.Row])
			}
			end[e.Row] = e.At + e.Duration
		}
	}
	for category, want := range map[string]int{"used": 8, "start": 2, "wait": 2, "decode": 2, "update": 1, "step": 1} {
		if count[category] != want {
			t.Errorf("%d events of category %s, want %d", count[category], category, want)
		}
	}
}

// A step with more tasks than are kept says how many are missing.
func TestTraceIsBounded(t *testing.T) {
	var p page
	tl, err := newTimeline(&p, 3, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for range maxTraced + 7 {
		tl.task(dist.TaskStats{Worker: "w"})
		tl.round(span{phase: phaseWait, step: 1})
	}
	if len(tl.tasks) != maxTraced || len(tl.spans) != maxTraced {
		t.Errorf("%d tasks and %d phases are kept, want at most %d", len(tl.tasks), len(tl.spans), maxTraced)
	}
	tl.tasks, tl.spans = tl.tasks[:1], tl.spans[:1]
	if err := errors.Join(tl.stepMade(train.StepInfo{Step: 1, Loss: math.NaN()}), tl.close()); err != nil {
		t.Fatal(err)
	}
	if events := readTrace(t, p.String()); !strings.Contains(p.String(), "7 tasks not traced") || len(events) != 6 {
		t.Errorf("%d events: %v", len(events), events)
	}
}

// Without a step there is still a whole trace; without --trace nothing happens.
func TestEmptyTrace(t *testing.T) {
	var p page
	tl, err := newTimeline(&p, 3, time.Now())
	if err := errors.Join(err, tl.close()); err != nil {
		t.Fatal(err)
	}
	if events := readTrace(t, p.String()); len(events) != 1 {
		t.Errorf("events %v", events)
	}
	var none *timeline
	if err := errors.Join(none.stepMade(train.StepInfo{}), none.close()); err != nil {
		t.Error(err)
	}
	if _, err := openTimeline(t.TempDir(), 1, time.Now()); err == nil || !strings.HasPrefix(err.Error(), "--trace: ") {
		t.Errorf("a folder as the file: error %v", err)
	}
}
