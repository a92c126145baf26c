package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	maxTraceLine    = 1024    // bytes
	maxTraceSamples = 1 << 23 // of a file
)

// ReadTrace reads one run of a trace, 0 for the first one. The name is that of
// the file, for messages. Errors name the line and the column, from 1.
func ReadTrace(r io.Reader, name string, run int) (*Trace, error) {
	p := &traceParser{trace: &Trace{name: name}, run: run}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxTraceLine), maxTraceLine)
	for lines.Scan() {
		p.line++
		if err := p.parse(lines.Text()); err != nil {
			return nil, fmt.Errorf("sim: trace %s: line %d: %w", name, p.line, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("sim: trace %s: line %d: want at most %d bytes", name, p.line+1, maxTraceLine)
	case err != nil:
		return nil, fmt.Errorf("sim: trace %s: after line %d: %w", name, p.line, err)
	case p.line < 2:
		return nil, fmt.Errorf("sim: trace %s: it has no header, want %q and %q", name, traceVersion, traceHeader)
	case len(p.trace.rounds) == 0 && run > 0:
		return nil, fmt.Errorf("sim: trace %s: it has no run %d", name, run)
	case len(p.trace.rounds) == 0:
		return nil, fmt.Errorf("sim: trace %s: it has no sample", name)
	}
	return p.trace, nil
}

type traceParser struct {
	trace *Trace
	run   int // 0: that of the first sample
	line  int
	last  Sample
}

func (p *traceParser) parse(text string) error {
	switch {
	case p.line == 1:
		return wantLine(text, traceVersion)
	case p.line == 2:
		return wantLine(text, traceHeader)
	case p.line > maxTraceSamples+2:
		return fmt.Errorf("want at most %d samples", maxTraceSamples)
	}
	s, err := parseSample(text)
	if err != nil {
		return err
	}
	if !p.last.before(s) {
		return fmt.Errorf("column 1: run %d, round %d, worker %d, from_s %v after %d, %d, %d, %v, want ascending samples",
			s.Run, s.Round, s.Worker, s.From, p.last.Run, p.last.Round, p.last.Worker, p.last.From)
	}
	if p.run == 0 {
		p.run = s.Run
	}
	if s.Run == p.run {
		p.add(s)
	}
	p.last = s
	return nil
}

func wantLine(got, want string) error {
	if got != want {
		return fmt.Errorf("column 1: %.80q, want %q", got, want)
	}
	return nil
}

// before tells whether a sample stands before another one.
func (s Sample) before(t Sample) bool {
	switch {
	case s.Run != t.Run:
		return s.Run < t.Run
	case s.Round != t.Round:
		return s.Round < t.Round
	case s.Worker != t.Worker:
		return s.Worker < t.Worker
	}
	return s.From < t.From
}

// add adds a sample of the wanted run.
func (p *traceParser) add(s Sample) {
	t := p.trace
	if len(t.rounds) == 0 || s.Round != p.last.Round {
		t.rounds = append(t.rounds, nil)
	}
	t.workers = max(t.workers, s.Worker)
	round := &t.rounds[len(t.rounds)-1]
	if n := len(*round); n == 0 || (*round)[n-1].worker != s.Worker-1 {
		*round = append(*round, traced{s.Worker - 1, delayed(s.From+s.Comm, s.Compute/s.Load)})
		return
	}
	pace := &(*round)[len(*round)-1].pace
	at := s.From + s.Comm
	if n := len(pace.Changes); n > 0 {
		at = max(at, pace.Changes[n-1].At)
	}
	pace.Changes = append(pace.Changes, Change{at, s.Compute / s.Load})
}

// parseSample parses a line. Errors name the column in bytes.
func parseSample(text string) (s Sample, err error) {
	names := strings.Split(traceHeader, ",")
	fields := strings.Split(text, ",")
	if len(fields) != len(names) {
		return s, fmt.Errorf("column %d: %d fields, want %d: %s", len(text)+1, len(fields), len(names), traceHeader)
	}
	column := 1
	for i, field := range fields {
		switch name := names[i]; name {
		case "run":
			s.Run, err = wholeField(field)
		case "round":
			s.Round, err = wholeField(field)
		case "worker":
			s.Worker, err = wholeField(field)
		case "from_s":
			s.From, err = timeField(field, false)
		case "load":
			if s.Load, err = timeField(field, false); err == nil && s.Load == 0 {
				err = errors.New("want more than 0")
			}
		case "compute_s":
			if s.Compute, err = timeField(field, true); err == nil && s.Compute == 0 {
				err = errors.New("want more than 0")
			}
		case "comm_s":
			s.Comm, err = timeField(field, false)
		}
		if err != nil {
			return s, fmt.Errorf("column %d: %s %.40q: %w", column, names[i], field, err)
		}
		column += len(field) + 1
	}
	return s, nil
}

func wholeField(s string) (int, error) {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 || v > MaxWorkers {
		return 0, fmt.Errorf("want a whole number from 1 to %d", MaxWorkers)
	}
	return v, nil
}

// maxSeconds bounds the numbers of a trace, so that no quotient is out of range.
const maxSeconds = 1e100

func timeField(s string, infinite bool) (float64, error) {
	if infinite && s == "inf" {
		return math.Inf(1), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || v > maxSeconds || v > 0 && v < 1e-100 {
		return 0, errors.New("want a number from 1e-100 to 1e100, or 0")
	}
	return v, nil
}
