package main

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChaosReport(t *testing.T) {
	var recorded []any
	var shown strings.Builder
	c := &chaosCmd{Seed: 7, Workers: 8, K: 5, Spares: 1, Faults: []string{"kill", "freeze"}}
	record := func(event any) error { recorded = append(recorded, event); return nil }
	r := newChaosReport(c, record, chaosTable{&shown}.add)
	r.begin = &footprint{Goroutines: 50, Files: 40, Heap: 3 << 20, ElderFiles: 13, ElderRSS: 27 << 20}
	r.end = &footprint{Goroutines: 51, Files: 40, Heap: 4 << 20, ElderFiles: 12, ElderRSS: 28 << 20}
	r.slowest = 128 * time.Millisecond
	r.wait(9*time.Second, "worker-3 has not come back")
	r.wait(time.Second, "worker-4 has not come back")
	compare := func(d float64) {
		t.Helper()
		if err := r.compare("round 3", d); err != nil {
			t.Error(err)
		}
	}
	compare(chaosTolerance)
	compare(0)
	for _, err := range []error{
		r.start(),
		r.action(action{what: "kill", worker: 2}),
		r.action(action{what: "mend", worker: 3, order: "cut 0s"}),
		r.action(action{what: "kill", worker: 4}),
		products(r, chaosProgressEvery),
		r.emit(workerEvent{"worker", "worker-2", "failed", 3, ""}),
		r.emit(chaosWarm{"warm", 100, r.begin}),
		r.done(1500 * time.Millisecond),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(recorded) != 8 || recorded[2] != (chaosAction{"fault", 0, "mend", "worker-3", "cut 0s"}) {
		t.Errorf("recorded %+v", recorded)
	}
	if diff := cmp.Diff(`seed 7: 8 workers and 1 more, any 5 enough; kill, freeze
1000 products, 2 faults, worst error 0.0001
100 products: warm, all workers are back; what is used now is compared with the end
1000 products in 1.5 s: all right, worst error 0.0001; the slowest took 128 ms
longest wait for workers 9.0 s: worker-3 has not come back
happened  kill 2  mend 1
reported  failed 1
                           begin       end
goroutines                    50        51
files                         40        40
heap                     3.0 MiB   4.0 MiB
worker-8 files                13        12
worker-8 memory         27.0 MiB  28.0 MiB
`, shown.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func products(r *chaosReport, n int) error {
	for range n {
		if err := r.product(); err != nil {
			return err
		}
	}
	return nil
}

func TestChaosReportRefuses(t *testing.T) {
	nothing := func(any) error { return nil }
	full := errors.New("disk full")
	r := newChaosReport(&chaosCmd{}, nothing, func(any) error { return full })
	for _, d := range []float64{1.1 * chaosTolerance, math.NaN(), math.Inf(1)} {
		if err := r.compare("round 3: layer fc1", d); err == nil || !strings.Contains(err.Error(), "round 3: layer fc1 differs by ") {
			t.Errorf("a difference of %g: error %v", d, err)
		}
	}
	if err := r.start(); !errors.Is(err, full) {
		t.Errorf("an output that fails gives %v", err)
	}
}

// What comes and goes by itself is no leak; one more for every fault is.
func TestGrown(t *testing.T) {
	begin := &footprint{Goroutines: 50, Files: 40, Heap: 4 << 20, ElderFiles: 13, ElderRSS: 30 << 20}
	end := *begin
	end.Goroutines, end.Files, end.Heap, end.ElderRSS = 66, 48, 22<<20, 77<<20
	if err := begin.grown(&end, "worker-8"); err != nil {
		t.Error(err)
	}
	for want, leak := range map[string]footprint{
		"goroutines: 67 at the end, 50 after the warm-up, at most 66 expected":                        {Goroutines: 67},
		"files: 49 at the end, 40 after the warm-up, at most 48 expected":                             {Files: 49},
		"heap: 30.0 MiB at the end, 4.0 MiB after the warm-up, at most 22.0 MiB expected":             {Heap: 30 << 20},
		"worker-8 files: 22 at the end, 13 after the warm-up, at most 21 expected":                    {ElderFiles: 22},
		"worker-8 memory: 78.0 MiB at the end, 30.0 MiB after the warm-up, at most 77.0 MiB expected": {ElderRSS: 78 << 20},
	} {
		if err := begin.grown(&leak, "worker-8"); err == nil || err.Error() != want {
			t.Errorf("grown: %v, want %s", err, want)
		}
	}
}

func TestReadFootprint(t *testing.T) {
	f, err := readFootprint(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if f.Goroutines < 2 || f.Heap < 1<<10 {
		t.Errorf("footprint %+v", f)
	}
	if _, err := os.Stat("/proc/self/fd"); err == nil && (f.Files < 3 || f.ElderFiles < 3 || f.ElderRSS < 1<<20) {
		t.Errorf("footprint %+v of this process", f)
	}
}
