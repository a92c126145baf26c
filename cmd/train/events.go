package main

import (
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/coda-ml/coda/coded"
)

// The events of a run, one JSON object a line. The names of the fields are a
// contract with the users' scripts: add fields, never rename them.

type startEvent struct {
	Event   string      `json:"event"` // start
	Config  *runFlags   `json:"config"`
	Workers []string    `json:"workers"`
	Layers  []layerInfo `json:"layers"`
	Plan    *prediction `json:"plan,omitempty"` // with placement auto, if the planner was asked
	Steps   int         `json:"steps"`          // of the whole run
	Groups  []groupRule `json:"groups,omitempty"`
	Params  int         `json:"parameters"`        // numbers in the model
	Trained int         `json:"trained"`           // those that are not frozen
	Resumed string      `json:"resumed,omitempty"` // the checkpoint that the run goes on from
	Kept    int         `json:"kept,omitempty"`    // shards that workers had kept for it
	Broken  []string    `json:"broken,omitempty"`  // newer checkpoints that could not be read, and why
	Unused  []string    `json:"unused,omitempty"`  // flags that have no effect where no layer is placed
}

type layerInfo struct {
	Layer     string `json:"layer"`
	Placement string `json:"placement"`
	Code      string `json:"code,omitempty"`
	N         int    `json:"n,omitempty"`
	K         int    `json:"k,omitempty"`
	Reason    string `json:"reason"`
	Gradient  int    `json:"gradient_needed,omitempty"` // answers that the gradient of a coded batch needs

	needs        int        // answers of which any suffice; 0: K
	spec         coded.Spec // of the code
	gradientSpec coded.Spec // of the gradient of a coded batch, if workers compute it
}

type stepEvent struct {
	Event    string  `json:"event"` // step
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`
	StepMS   float64 `json:"step_ms"`
	Answered []int   `json:"answered"` // workers, however many shards they hold, whose results were used, from 1
	Needed   int     `json:"needed"`   // answers that suffice for every product, k for most codes; 0 when nothing is placed
	usage
}

type epochEvent struct {
	Event        string  `json:"event"` // epoch
	Epoch        int     `json:"epoch"` // from 1
	Step         int     `json:"step"`
	Loss         float64 `json:"loss"`
	TestLoss     float64 `json:"test_loss"`
	TestAccuracy float64 `json:"test_accuracy"`
	ImagesPerS   float64 `json:"images_per_s"`
}

type workerEvent struct {
	Event  string `json:"event"` // worker
	Worker string `json:"worker"`
	State  string `json:"state"` // joined, left, failed, stale, repaired, quarantined, moved, refused
	Step   int    `json:"step"`
	Reason string `json:"reason,omitempty"`
}

// driftEvent tells how far the coded copies of a resident layer are apart, in parts
// of the largest entry.
type driftEvent struct {
	Event     string  `json:"event"` // drift
	Step      int     `json:"step"`
	Layer     string  `json:"layer"`
	Shards    int     `json:"shards"` // that were compared
	Weights   float64 `json:"weights"`
	Momenta   float64 `json:"momenta"`
	Corrected bool    `json:"corrected"` // the layer was encoded anew
}

type checkpointEvent struct {
	Event string `json:"event"` // checkpoint
	Path  string `json:"path"`
	Step  int    `json:"step"`
	Why   string `json:"why"`
}

type restoredEvent struct {
	Event string `json:"event"` // restored
	Path  string `json:"path"`
	Step  int    `json:"step"` // that the run goes on from
	Why   string `json:"why"`
}

type doneEvent struct {
	Event        string  `json:"event"` // done
	TestAccuracy float64 `json:"test_accuracy"`
	Steps        int     `json:"steps"`
	Seconds      float64 `json:"seconds"`
	ImagesPerS   float64 `json:"images_per_s"`
	BytesOut     int64   `json:"bytes_out"`
	BytesIn      int64   `json:"bytes_in"`
	WastedWork   float64 `json:"wasted_work"`
}

type errorEvent struct {
	Event   string `json:"event"` // error
	Message string `json:"message"`
}

// sink takes the events of a run in order. One goroutine at a time calls it.
type sink interface{ emit(event any) error }

// sinks sends every event to each of several.
type sinks []sink

func (s sinks) emit(event any) error {
	var problems []error
	for _, one := range s {
		problems = append(problems, one.emit(event))
	}
	return errors.Join(problems...)
}

// jsonSink writes one object a line.
type jsonSink struct{ w io.Writer }

func (s jsonSink) emit(event any) error {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, err = s.w.Write(append(line, '\n'))
	return err
}

// runEvents gives the events of the training loop and of the cluster, which
// come from different goroutines, to the sinks one after another. The start
// event comes first, and what the cluster tells before waits for it; nothing
// comes after done or error.
type runEvents struct {
	to sinks

	mu    sync.Mutex
	stage int // before start, under way, over
	early []any
}

const (
	beforeStart = iota
	underWay
	over
)

func (e *runEvents) emit(event any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stage == over {
		return nil
	}
	if _, early := event.(workerEvent); early && e.stage == beforeStart {
		e.early = append(e.early, event)
		return nil
	}
	order := append(e.early, event)
	switch event.(type) {
	case startEvent:
		e.stage = underWay
		order = append([]any{event}, e.early...)
	case doneEvent, errorEvent:
		e.stage = over
	}
	e.early = nil
	var problems []error
	for _, one := range order {
		problems = append(problems, e.to.emit(one))
	}
	return errors.Join(problems...)
}
