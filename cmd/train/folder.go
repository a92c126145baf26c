package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/internal/atomicfile"
)

// Names in a run folder.
const (
	configName      = "config.yaml"
	metricsName     = "metrics.jsonl"
	checkpointsName = "checkpoints"
)

// runFolder is where a run keeps its files:
//
//	config.yaml      the settings, complete; train run -c takes it
//	metrics.jsonl    the events
//	checkpoints/     one folder each
//	logs/            of the coordinator and of the workers started here
type runFolder struct {
	path string
	made []string // what was not there before, outermost first
}

// openRunFolder makes the folder of a new run, or opens that of one to resume.
// A new run does not go where another has been.
func openRunFolder(out, resume, model, dataset string, now time.Time) (*runFolder, error) {
	f := &runFolder{path: out}
	if out == "" && resume != "" {
		f.path = resume
	}
	if f.path == "" {
		name := filepath.Join("runs", fmt.Sprintf("%s-%s-%s", model, datasetName(dataset), now.Format("20060102-150405")))
		f.path = name
		for i := 2; exists(f.path); i++ {
			f.path = fmt.Sprintf("%s-%d", name, i)
		}
	} else if resume == "" || !sameFolder(f.path, resume) {
		if exists(f.join(configName)) {
			return nil, fmt.Errorf("--out %s: %s", out, f.taken())
		}
	}
	for _, name := range []string{"", checkpointsName, "logs"} {
		if err := f.mkdirAll(f.join(name)); err != nil {
			return nil, errors.Join(fmt.Errorf("run folder %s: %w", f.path, err), f.discard())
		}
	}
	for _, name := range []string{configName, metricsName} {
		if !exists(f.join(name)) {
			f.made = append(f.made, f.join(name)) // soon
		}
	}
	return f, nil
}

// taken says what can be done where another run has been.
func (f *runFolder) taken() string {
	if steps, err := filepath.Glob(filepath.Join(f.path, checkpointsName, "step-*")); err == nil && len(steps) == 0 {
		return "there is a run in it that ended before its first checkpoint; remove it or choose another folder"
	}
	return fmt.Sprintf("there is a run in it; go on with it (--resume %s) or choose another folder", f.path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func sameFolder(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// mkdirAll makes a folder and those above it, and notes which were not there.
func (f *runFolder) mkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", path)
		}
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := f.mkdirAll(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, 0o755)
	if err == nil {
		f.made = append(f.made, path)
	}
	return err
}

// discard removes what has been made, for a run that does not begin. What was
// there before stays.
func (f *runFolder) discard() error {
	var problems []error
	for _, path := range f.made {
		problems = append(problems, os.RemoveAll(path))
	}
	return errors.Join(problems...)
}

func (f *runFolder) join(name string) string { return filepath.Join(f.path, name) }

// writeConfig writes the settings with every default filled in, but without the
// names of files, which another run would write to as well.
func (f *runFolder) writeConfig(flags *runFlags, l lists) error {
	resolved := fileSettings{*flags, l}
	out := &resolved.Flags
	out.Out, out.JSON, out.Record, out.Replay = "", "", "", ""
	out.Observe, out.Trace = observeFlags{}, "" // where somebody watched says nothing about the run
	text, err := yaml.Marshal(resolved)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return atomicfile.Write(f.join(configName), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// openAppend opens a file of lines to write more of them. The half line that a
// run which was killed, or a full disk, may have left at its end is removed.
func openAppend(path string) (_ *os.File, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	tail := make([]byte, min(end, 1<<20)) // far more than a line
	if _, err := f.ReadAt(tail, end-int64(len(tail))); err != nil {
		return nil, err
	}
	half := len(tail) - 1 - bytes.LastIndexByte(tail, '\n')
	if half == 0 {
		return f, nil
	}
	return f, f.Truncate(end - int64(half))
}

// datasetName is the name of a data set as a part of a file's name: that of its
// folder for folder:PATH.
func datasetName(dataset string) string {
	return filepath.Base(strings.TrimPrefix(dataset, datasets.FolderPrefix))
}
