package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The events of a chaos run, one JSON object a line; those of workers are as in
// a training run.

type chaosStart struct {
	Event   string   `json:"event"` // start
	System  string   `json:"system"`
	Seed    uint64   `json:"seed"`
	Workers int      `json:"workers"`
	K       int      `json:"k"`
	Spares  int      `json:"spares"`
	Faults  []string `json:"faults"`
}

type chaosAction struct {
	Event  string `json:"event"` // fault
	Round  int    `json:"round"` // products made before
	What   string `json:"what"`
	Worker string `json:"worker"`
	Order  string `json:"order,omitempty"` // how the worker is to misbehave
}

type chaosWarm struct {
	Event string `json:"event"` // warm
	Round int    `json:"round"`
	*footprint
}

type chaosProgress struct {
	Event   string  `json:"event"` // progress
	Rounds  int     `json:"rounds"`
	Faults  int     `json:"faults"`
	Worst   float64 `json:"worst_error"`
	Slowest float64 `json:"slowest_ms"`
}

type chaosDone struct {
	Event   string         `json:"event"` // done
	System  string         `json:"system"`
	Seed    uint64         `json:"seed"`
	Rounds  int            `json:"rounds"` // products, every one compared with a direct one
	Seconds float64        `json:"seconds"`
	Faults  map[string]int `json:"faults"`        // what happened to workers, how often
	Events  map[string]int `json:"events"`        // what the coordinator reported of workers
	Worst   float64        `json:"worst_error"`   // largest difference over the largest value wanted
	Slowest float64        `json:"slowest_ms"`    // the round that took longest
	Waited  float64        `json:"waited_s"`      // longest time that a fault had to wait until enough workers had come back
	For     string         `json:"waited_for"`    // what was missing at the end of it
	Begin   *footprint     `json:"begin"`         // after the warm-up, when every worker was back
	End     *footprint     `json:"end"`           // likewise
	Elder   string         `json:"elder_process"` // the worker that is never ended, whose process is measured
}

// chaosReport gathers what a chaos run has seen and tells it.
type chaosReport struct {
	settings    *chaosCmd
	rounds      int
	slowest     time.Duration
	worst       float64
	waited      time.Duration
	waitedFor   string
	faults      map[string]int
	begin, end  *footprint
	mu          sync.Mutex // events come from the coordinator's goroutine too
	events      map[string]int
	record, out rows
}

func newChaosReport(c *chaosCmd, record, out rows) *chaosReport {
	return &chaosReport{settings: c, record: record, out: out, faults: map[string]int{}, events: map[string]int{}}
}

func (r *chaosReport) emit(event any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := event.(workerEvent); ok {
		r.events[e.State]++
	}
	return errors.Join(r.record(event), r.out(event))
}

func (r *chaosReport) start() error {
	c := r.settings
	return r.emit(chaosStart{"start", "coda", c.Seed, c.Workers, c.K, c.Spares, c.Faults})
}

func (r *chaosReport) action(a action) error {
	r.faults[a.what]++
	return r.emit(chaosAction{"fault", r.rounds, a.what, workerName(a.worker), a.order})
}

// wait notes how long a fault has been waiting for workers.
func (r *chaosReport) wait(d time.Duration, obstacle string) {
	if d > r.waited {
		r.waited, r.waitedFor = d, obstacle
	}
}

// chaosProgressEvery is how many products are made between two notes of progress.
const chaosProgressEvery = 1000

// product counts a product.
func (r *chaosReport) product() error {
	r.rounds++
	if r.rounds%chaosProgressEvery != 0 {
		return nil
	}
	faults := 0
	for what, n := range r.faults {
		if (action{what: what}).harms() {
			faults += n
		}
	}
	return r.emit(chaosProgress{"progress", r.rounds, faults, r.worst, milliseconds(r.slowest)})
}

// compare notes how far something is from the truth, and whether that is too far.
func (r *chaosReport) compare(what string, d float64) error {
	r.worst = max(r.worst, d)
	if !(d <= chaosTolerance) {
		return fmt.Errorf("%s differs by %.3g of its largest value, tolerance %g", what, d, chaosTolerance)
	}
	return nil
}

func (r *chaosReport) done(took time.Duration) error {
	r.mu.Lock()
	events := maps.Clone(r.events)
	r.mu.Unlock()
	return r.emit(chaosDone{
		Event: "done", System: "coda", Seed: r.settings.Seed, Rounds: r.rounds, Seconds: took.Seconds(), Faults: r.faults, Events: events,
		Worst: r.worst, Slowest: milliseconds(r.slowest), Waited: r.waited.Seconds(), For: r.waitedFor, Begin: r.begin, End: r.end, Elder: workerName(r.settings.elder()),
	})
}

// chaosTable tells people what matters.
type chaosTable struct{ w io.Writer }

func (t chaosTable) add(event any) error {
	var err error
	switch e := event.(type) {
	case chaosStart:
		_, err = fmt.Fprintf(t.w, "seed %d: %d workers and %d more, any %d enough; %s\n", e.Seed, e.Workers, e.Spares, e.K, strings.Join(e.Faults, ", "))
	case chaosWarm:
		_, err = fmt.Fprintf(t.w, "%d products: warm, all workers are back; what is used now is compared with the end\n", e.Round)
	case chaosProgress:
		_, err = fmt.Fprintf(t.w, "%d products, %d faults, worst error %.2g\n", e.Rounds, e.Faults, e.Worst)
	case chaosDone:
		_, err = io.WriteString(t.w, e.table())
	}
	return err
}

func (e chaosDone) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d products in %.1f s: all right, worst error %.2g; the slowest took %.0f ms\n", e.Rounds, e.Seconds, e.Worst, e.Slowest)
	fmt.Fprintf(&b, "longest wait for workers %.1f s: %s\n", e.Waited, cmp.Or(e.For, "none"))
	fmt.Fprintf(&b, "happened  %s\n", counts(e.Faults))
	fmt.Fprintf(&b, "reported  %s\n", counts(e.Events))
	fmt.Fprintf(&b, "%-22s %9s %9s\n", "", "begin", "end")
	for i, row := range e.Begin.rows(e.Elder) {
		fmt.Fprintf(&b, "%-22s %9s %9s\n", row.name, row.value(), e.End.rows(e.Elder)[i].value())
	}
	return b.String()
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, "  ")
}
