package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/coda-ml/coda/dist"
)

// human is where lines for people go: not to standard output when that is for
// JSON alone.
func (r *run) human(t terminal) io.Writer {
	if r.JSON == "-" {
		return t.stderr
	}
	return t.stdout
}

// openOutput makes the run folder and opens everything that is written to
// while the run lasts. If any of it fails, no new folder is left.
func (r *run) openOutput(t terminal) (err error) {
	if r.folder, err = openRunFolder(r.Out, string(r.Resume), r.Model, r.Dataset, r.began); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.folder.discard())
		}
	}()
	r.Out = r.folder.path
	if err := r.folder.writeConfig(r.runFlags, r.lists); err != nil {
		return err
	}
	metrics, err := openAppend(r.folder.join(metricsName))
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	r.files = append(r.files, metrics)
	if err := errors.Join(r.openRecord(), r.openTimeline()); err != nil {
		return err
	}
	all := sinks{jsonSink{metrics}}
	switch r.JSON {
	case "":
	case "-":
		all = append(all, jsonSink{t.stdout})
	default:
		f, err := os.Create(r.JSON)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		r.files = append(r.files, f)
		all = append(all, jsonSink{f})
	}
	human := r.human(t)
	r.events = &runEvents{to: append(all, newConsole(human, terminalWidth(human), r.totalSteps()))}
	return nil
}

// openRecord makes the file of --record.
func (r *run) openRecord() error {
	if r.Record == "" {
		return nil
	}
	f, err := os.Create(r.Record)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	r.files = append(r.files, f)
	r.recorder = dist.NewRecorder(f)
	return nil
}

// readReplay reads the file of --replay.
func (r *run) readReplay() error {
	if r.Replay == "" {
		return nil
	}
	f, err := os.Open(r.Replay)
	if err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	defer f.Close()
	if r.replay, err = dist.ReadReplay(f); err != nil {
		return fmt.Errorf("--replay %s: %w", r.Replay, err)
	}
	return nil
}

// reportFailure gives the events their last one. That it cannot be written is
// no news: the failure itself is told on standard error, and is often the cause.
func (r *run) reportFailure(t terminal, failure error) {
	e := errorEvent{"error", oneLine(failure)}
	switch {
	case r.events != nil:
		_ = r.events.emit(e)
	case r.JSON == "-":
		_ = jsonSink{t.stdout}.emit(e)
	}
}

func (r *run) closeOutput() error {
	var problems []error
	for _, f := range r.files {
		problems = append(problems, f.Close())
	}
	return errors.Join(problems...)
}
