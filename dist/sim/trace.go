package sim

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A trace is text: a line with the version of the format, one with the names of
// the columns, and one for each sample, ascending by run, round, worker and
// from_s:
//
//	# coda-trace 1
//	run,round,worker,from_s,load,compute_s,comm_s
//	1,1,1,0,1,1.25,0
//	1,1,2,0,0.5,0.9,0.01
//
// run, round and worker are whole numbers from 1. From from_s seconds after the
// start of the round, the worker did its work at the pace of load shards in
// compute_s seconds ("inf": it stood still), after comm_s seconds of waiting for
// messages. A worker that has no sample in a round was not there.
const (
	traceVersion = "# coda-trace 1"
	traceHeader  = "run,round,worker,from_s,load,compute_s,comm_s"
)

// Sample is how fast a worker was in a round, from some time on.
type Sample struct {
	Run, Round, Worker int     // from 1
	From               float64 // seconds from the start of the round
	Load               float64 // shards, more than 0
	Compute            float64 // seconds of computing it; +Inf: it stood still
	Comm               float64 // seconds of communication before
}

// TraceWriter writes a trace. Flush ends it.
type TraceWriter struct{ w *bufio.Writer }

// NewTraceWriter begins a trace.
func NewTraceWriter(w io.Writer) (*TraceWriter, error) {
	t := &TraceWriter{bufio.NewWriter(w)}
	if _, err := fmt.Fprintf(t.w, "%s\n%s\n", traceVersion, traceHeader); err != nil {
		return nil, fmt.Errorf("sim: write trace: %w", err)
	}
	return t, nil
}

// Write adds a sample. Numbers are written so that reading gives the same bits.
func (t *TraceWriter) Write(s Sample) error {
	line := make([]byte, 0, 96)
	for _, v := range []int{s.Run, s.Round, s.Worker} {
		line = append(strconv.AppendInt(line, int64(v), 10), ',')
	}
	for i, v := range []float64{s.From, s.Load, s.Compute, s.Comm} {
		if i > 0 {
			line = append(line, ',')
		}
		if math.IsInf(v, 1) {
			line = append(line, "inf"...)
		} else {
			line = strconv.AppendFloat(line, v, 'g', -1, 64)
		}
	}
	if _, err := t.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("sim: write trace: %w", err)
	}
	return nil
}

// Flush writes what is still held back.
func (t *TraceWriter) Flush() error {
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("sim: write trace: %w", err)
	}
	return nil
}

// Record writes what a model does to workers in rounds 1 to rounds, as run 1. The
// trace, as a model, gives the same simulated rounds to the bit.
func Record(w io.Writer, m Model, seed uint64, workers, rounds int) error {
	if t, ok := tooSmall(m, workers); ok {
		return fmt.Errorf("sim: record: %v has %d workers, want %d", t, t.workers, workers)
	}
	t, err := NewTraceWriter(w)
	if err != nil {
		return err
	}
	paces := make([]Pace, workers)
	for round := 1; round <= rounds; round++ {
		draw(paces, m, seed, round)
		if err := t.writeRound(1, round, paces); err != nil {
			return err
		}
	}
	return t.Flush()
}

// WritePaces adds the rounds of a run, by round and worker, in units of a shard's
// time as seconds.
func (t *TraceWriter) WritePaces(run int, rounds [][]Pace) error {
	for i, paces := range rounds {
		if err := t.writeRound(run, i+1, paces); err != nil {
			return err
		}
	}
	return nil
}

func (t *TraceWriter) writeRound(run, round int, paces []Pace) error {
	for i, p := range paces {
		s := Sample{Run: run, Round: round, Worker: i + 1, Load: 1, Compute: p.Slowness}
		if err := t.Write(s); err != nil {
			return err
		}
		for _, c := range p.Changes {
			s.From, s.Compute = c.At, c.Slowness
			if err := t.Write(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Paces returns the paces of a round under a model.
func Paces(m Model, workers int, seed uint64, round int) []Pace {
	paces := make([]Pace, workers)
	draw(paces, m, seed, round)
	return paces
}

// draw sets the paces of a round.
func draw(paces []Pace, m Model, seed uint64, round int) {
	for w := range paces {
		paces[w] = Pace{Slowness: 1}
	}
	m.Apply(paces, seed, round)
}

// Trace is a recorded trace as a model: its rounds one after the other, and again
// from the first when they are used up.
type Trace struct {
	name    string
	workers int
	rounds  [][]traced
}

// traced is the pace of a worker.
type traced struct {
	worker int
	pace   Pace
}

// Rounds returns the number of rounds.
func (t *Trace) Rounds() int { return len(t.rounds) }

// Workers returns the number of the last worker in the trace.
func (t *Trace) Workers() int { return t.workers }

// Apply implements Model.
func (t *Trace) Apply(paces []Pace, _ uint64, round int) {
	w := 0
	for _, e := range t.rounds[(round-1)%len(t.rounds)] {
		for ; w < e.worker && w < len(paces); w++ {
			paces[w] = gone
		}
		if w == len(paces) {
			return
		}
		paces[w] = paces[w].times(e.pace)
		w++
	}
	for ; w < len(paces); w++ {
		paces[w] = gone
	}
}

func (t *Trace) String() string { return "trace=" + t.name }

// tooSmall returns a trace within a model that has fewer workers than are wanted.
func tooSmall(m Model, workers int) (*Trace, bool) {
	switch m := m.(type) {
	case *Trace:
		return m, m.workers < workers
	case Together:
		for _, part := range m {
			if t, ok := tooSmall(part, workers); ok {
				return t, true
			}
		}
	}
	return nil, false
}
