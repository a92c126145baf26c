package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/coda-ml/coda/internal/atomicfile"
)

// runFolder is where a run keeps its files:
//
//	config.yaml      the settings, complete; train run -c takes it
//	metrics.jsonl    the events
//	checkpoints/     one folder each
//	logs/            of the workers started here
type runFolder struct{ path string }

// openRunFolder makes the folder of a new run, or opens that of one to resume.
func openRunFolder(out, resume, model, dataset string, now time.Time) (*runFolder, error) {
	f := &runFolder{path: out}
	var err error
	switch {
	case resume != "" && out == "":
		f.path = resume
	case out == "":
		f.path, err = newFolder(filepath.Join("runs", fmt.Sprintf("%s-%s-%s", model, dataset, now.Format("20060102-150405"))))
	}
	if err != nil {
		return nil, fmt.Errorf("run folder: %w", err)
	}
	for _, sub := range []string{"checkpoints", "logs"} {
		if err := os.MkdirAll(f.join(sub), 0o755); err != nil {
			return nil, fmt.Errorf("run folder: %w", err)
		}
	}
	return f, nil
}

// newFolder makes a folder of a name that is not taken.
func newFolder(name string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	path := name
	for i := 2; ; i++ {
		err := os.Mkdir(path, 0o755)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return path, err
		}
		path = fmt.Sprintf("%s-%d", name, i)
	}
}

func (f *runFolder) join(name string) string { return filepath.Join(f.path, name) }

// configName is the file that holds the settings of a run.
const configName = "config.yaml"

// writeConfig writes the settings with every default filled in, but without the
// names of files, which another run would write to as well.
func (f *runFolder) writeConfig(flags *runFlags, rules []placementRule) error {
	resolved := struct {
		Flags      runFlags        `yaml:",inline"`
		Placements []placementRule `yaml:"placements,omitempty"`
	}{*flags, rules}
	out := &resolved.Flags
	out.Out, out.JSON, out.Record, out.Replay = "", "", "", ""
	text, err := yaml.Marshal(resolved)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	return atomicfile.Write(f.join(configName), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
