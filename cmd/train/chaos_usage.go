package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

// footprint is what the coordinator, and the worker process that lives as long
// as the run, use when every worker is well and nothing happens. What cannot be
// read on this system is 0.
type footprint struct {
	Goroutines int64 `json:"goroutines"`
	Files      int64 `json:"files"` // open descriptors
	Heap       int64 `json:"heap_bytes"`
	ElderFiles int64 `json:"elder_files"`
	ElderRSS   int64 `json:"elder_rss_bytes"`
}

// quantity is one number of a footprint, with what it may have grown by: a
// fraction and a number, which are what comes and goes by itself. A leak of one
// for each fault is more.
type quantity struct {
	name     string
	n        int64
	fraction float64
	more     int64
	bytes    bool
}

func (f *footprint) rows(elder string) []quantity {
	return []quantity{
		{"goroutines", f.Goroutines, 0, 16, false}, // of the gossip, which probes and dials
		{"files", f.Files, 0, 8, false},
		{"heap", f.Heap, 0.5, 16 << 20, true},
		{elder + " files", f.ElderFiles, 0, 8, false},
		{elder + " memory", f.ElderRSS, 0.5, 32 << 20, true}, // of a heap that is seldom collected
	}
}

func (q quantity) value() string {
	if q.bytes {
		return fmt.Sprintf("%.1f MiB", float64(q.n)/(1<<20))
	}
	return strconv.FormatInt(q.n, 10)
}

// grown tells what has grown by more than it may have.
func (f *footprint) grown(now *footprint, elder string) error {
	var problems []error
	after := now.rows(elder)
	for i, q := range f.rows(elder) {
		if most := q.n + int64(q.fraction*float64(q.n)) + q.more; after[i].n > most {
			q.n = most
			problems = append(problems, fmt.Errorf("%s: %s at the end, %s after the warm-up, at most %s expected",
				q.name, after[i].value(), f.rows(elder)[i].value(), q.value()))
		}
	}
	return errors.Join(problems...)
}

// readFootprint measures this process and another.
func readFootprint(pid int) (*footprint, error) {
	runtime.GC()
	runtime.GC() // what the first one has found finalisers for
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	f := &footprint{Goroutines: int64(runtime.NumGoroutine()), Heap: int64(heap[0].Value.Uint64())}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return f, nil // another system
	}
	var err1, err2, err3 error
	f.Files, err1 = openFiles("self")
	f.ElderFiles, err2 = openFiles(strconv.Itoa(pid))
	f.ElderRSS, err3 = residentBytes(pid)
	return f, errors.Join(err1, err2, err3)
}

func openFiles(process string) (int64, error) {
	entries, err := os.ReadDir(filepath.Join("/proc", process, "fd"))
	return int64(len(entries)), err
}

// residentBytes is the second number of statm, in pages.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q, want two numbers at least", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// measure heals every worker, waits until all are back and the gossip knows it,
// and takes the footprint. Products go on all the time.
func (r *chaosRun) measure(ctx context.Context) (*footprint, error) {
	r.plan.healing = true
	begin := time.Now()
	for missing := r.missing(); r.some || missing != ""; missing = r.missing() {
		if waited := time.Since(begin); !r.some && waited > chaosRecovery {
			return nil, fmt.Errorf("round %d: nothing has happened to the workers for %v: %s", r.report.rounds, waited.Round(time.Second), missing)
		}
		if r.some {
			begin = time.Now()
		}
		r.pause = 10 * time.Millisecond
		if err := r.trainStep(ctx); err != nil {
			return nil, err
		}
	}
	p := r.cluster.workers.proc(r.elder())
	if p == nil {
		return nil, fmt.Errorf("%s has ended, which nobody asked it to", workerName(r.elder()))
	}
	return readFootprint(p.cmd.Process.Pid)
}

// missing says which workers are not back where they should be, empty if all are.
func (r *chaosRun) missing() string {
	if serving := r.cluster.coordinator.Serving(); len(serving) < r.Workers {
		return fmt.Sprintf("only %s serve, %d expected", strings.Join(serving, ", "), r.Workers)
	}
	var names []string
	for _, m := range r.cluster.members.Members() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	if want := r.Workers + r.Spares + 1; len(names) != want {
		return fmt.Sprintf("the gossip lists %d members, %d expected: %s", len(names), want, strings.Join(names, ", "))
	}
	return ""
}

// firstFootprint is taken after the warm-up, for comparison.
func (r *chaosRun) firstFootprint(ctx context.Context) (err error) {
	if r.report.begin, err = r.measure(ctx); err != nil {
		return err
	}
	r.plan.healing = false
	r.draw()
	return r.report.emit(chaosWarm{"warm", r.report.rounds, r.report.begin})
}

// lastFootprint is compared with the first. What is about to end is given time.
func (r *chaosRun) lastFootprint(ctx context.Context) (err error) {
	for begin := time.Now(); ; {
		if r.report.end, err = r.measure(ctx); err != nil {
			return err
		}
		grown := r.report.begin.grown(r.report.end, workerName(r.elder()))
		if grown == nil {
			return nil
		}
		if time.Since(begin) > chaosRecovery/3 {
			return errors.Join(grown, r.writeStacks())
		}
		r.pause = 100 * time.Millisecond
		if err := r.trainStep(ctx); err != nil {
			return err
		}
	}
}
