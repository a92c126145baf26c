package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn/train"
)

// timeline writes what a run's coordinator and workers do as a Chrome trace, an
// array of JSON objects that chrome://tracing and Perfetto show: a row for the
// coordinator, one for each worker. A nil timeline takes no notice.
//
// Tasks and phases are gathered and written at the end of each step. A trace
// that is not closed lacks only the bracket at its end, which both programs
// forgive.
type timeline struct {
	file  io.WriteCloser
	w     *bufio.Writer
	began time.Time
	rows  map[string]int       // of workers, from 1
	ended map[string]time.Time // of workers: the end of their last task
	any   bool                 // an event has been written
	last  int                  // step after which nothing is written; 0: not known yet
	steps int                  // to write
	spans []span               // of the step under way

	mu      sync.Mutex
	tasks   []dist.TaskStats // of the step under way
	dropped int
	over    bool
}

// maxTraced bounds the tasks and the phases of a step. A task takes about 250
// bytes of the file.
const maxTraced = 1 << 16

// openTimeline makes the file.
func openTimeline(path string, steps int, began time.Time) (*timeline, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	return newTimeline(f, steps, began)
}

func newTimeline(w io.WriteCloser, steps int, began time.Time) (*timeline, error) {
	t := &timeline{file: w, w: bufio.NewWriter(w), began: began, steps: steps, rows: map[string]int{}, ended: map[string]time.Time{}}
	return t, errors.Join(t.name(0, "coordinator"), t.w.Flush())
}

// traceEvent is an event of the trace format. Times are microseconds.
type traceEvent struct {
	Name     string  `json:"name"`
	Category string  `json:"cat,omitempty"`
	Phase    string  `json:"ph"` // X: has a beginning and a duration; M: names a row; i: a remark
	At       float64 `json:"ts"`
	Duration float64 `json:"dur"`
	Process  int     `json:"pid"`
	Row      int     `json:"tid"`
	Args     any     `json:"args,omitempty"`
}

type traceName struct {
	Name string `json:"name"`
}

type traceTask struct {
	Step      int     `json:"step"`
	Round     uint64  `json:"round"`
	Chunk     int     `json:"chunk"`
	Outcome   string  `json:"outcome"`
	WaitedMS  float64 `json:"waited_ms"`  // in the worker's queue, behind its other tasks
	ComputeMS float64 `json:"compute_ms"` // as the worker measured it
}

type traceStep struct {
	Step int     `json:"step"`
	Loss float64 `json:"loss,omitempty"`
}

func (t *timeline) micros(at time.Time) float64 {
	return float64(at.Sub(t.began).Nanoseconds()) / 1e3
}

func (t *timeline) write(e traceEvent) error {
	e.Process = 1
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	before := ",\n"
	if !t.any {
		before, t.any = "[\n", true
	}
	_, err = t.w.WriteString(before)
	_, rest := t.w.Write(text)
	return errors.Join(err, rest)
}

func (t *timeline) name(row int, name string) error {
	return t.write(traceEvent{Name: "thread_name", Phase: "M", Row: row, Args: traceName{name}})
}

// round notes a phase. It is called by the training goroutine.
func (t *timeline) round(s span) {
	if len(t.spans) < maxTraced && (t.last == 0 || s.step <= t.last) {
		t.spans = append(t.spans, s)
	}
}

// task notes a task. It is called under the coordinator's lock, and so only
// keeps it.
func (t *timeline) task(s dist.TaskStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
	case len(t.tasks) == maxTraced:
		t.dropped++
	default:
		t.tasks = append(t.tasks, s)
	}
}

// stepMade writes what has happened since the last step. After its last step
// the trace takes nothing more.
func (t *timeline) stepMade(s train.StepInfo) error {
	if t == nil {
		return nil
	}
	if t.last == 0 {
		t.last = s.Step + t.steps - 1 // after a resume the first step is not 1
	}
	if s.Step > t.last {
		return nil
	}
	args := traceStep{Step: s.Step}
	if !math.IsNaN(s.Loss) && !math.IsInf(s.Loss, 0) { // which JSON has no words for
		args.Loss = s.Loss
	}
	err := t.write(traceEvent{
		Name: fmt.Sprintf("step %d", s.Step), Category: "step", Phase: "X",
		At: t.micros(time.Now().Add(-s.Time)), Duration: micros(s.Time), Args: args,
	})
	if err := errors.Join(err, t.flush(s.Step == t.last)); err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// flush writes what was gathered.
func (t *timeline) flush(last bool) error {
	t.mu.Lock()
	tasks, dropped := t.tasks, t.dropped
	t.tasks, t.dropped, t.over = nil, 0, t.over || last
	t.mu.Unlock()
	var problems []error
	for _, s := range t.spans {
		problems = append(problems, t.writeSpan(s))
	}
	t.spans = t.spans[:0]
	for _, s := range tasks {
		problems = append(problems, t.writeTask(s))
	}
	if dropped > 0 {
		problems = append(problems, t.write(traceEvent{Name: fmt.Sprintf("%d tasks not traced", dropped), Phase: "i", At: t.micros(time.Now())}))
	}
	return errors.Join(append(problems, t.w.Flush())...)
}

func (t *timeline) writeSpan(s span) error {
	name := string(s.phase)
	if s.layer != "" {
		name += " " + s.layer + " " + s.product
	}
	return t.write(traceEvent{
		Name: name, Category: string(s.phase), Phase: "X", At: t.micros(s.began), Duration: micros(s.took), Args: traceStep{Step: s.step},
	})
}

// writeTask writes a task on its worker's row. A worker does its tasks one after
// another, so that one begins there when the one before has ended.
func (t *timeline) writeTask(s dist.TaskStats) error {
	row, known := t.rows[s.Worker]
	if !known {
		if len(t.rows) == maxSeries {
			return nil
		}
		row = len(t.rows) + 1
		t.rows[s.Worker] = row
		if err := t.name(row, s.Worker); err != nil {
			return err
		}
	}
	began, ended := s.Began, s.Began.Add(s.Took)
	if before := t.ended[s.Worker]; before.After(began) {
		began = before
	}
	if began.After(ended) {
		began = ended
	}
	t.ended[s.Worker] = ended
	return t.write(traceEvent{
		Name: fmt.Sprintf("%s %s %d", s.Layer, s.Product, s.Chunk), Category: s.Outcome.String(), Phase: "X",
		At: t.micros(began), Duration: micros(ended.Sub(began)), Row: row,
		Args: traceTask{s.Step, s.Round, s.Chunk, s.Outcome.String(), milliseconds(began.Sub(s.Began)), milliseconds(s.Compute)},
	})
}

// close writes what is left, and the end.
func (t *timeline) close() error {
	if t == nil {
		return nil
	}
	err := t.flush(true)
	_, end := t.w.WriteString("\n]\n")
	if err := errors.Join(err, end, t.w.Flush(), t.file.Close()); err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	return nil
}
