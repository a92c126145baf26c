// Package golden holds values that PyTorch 1.13 computed in float32, for tests
// to compare with: operations forward and backward, optimisers, schedules, and
// a training run.
//
//	for _, c := range golden.Read(t, "conv2d_*") {
//		want := c.Floats("out")
//	}
//
// A case is a safetensors file that PyTorch's own writer made; its settings are
// JSON in the file's text under "case".
package golden

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/safetensors"
)

//go:embed testdata
var files embed.FS

// Case is one file. Its methods end the test if something is not there.
type Case struct {
	Name string // of the file, without its ending
	t    testing.TB
	file *safetensors.File
}

// Read returns the cases whose names match a pattern of path.Match, of which
// there must be at least one, in the order of their names.
func Read(t testing.TB, pattern string) []*Case {
	t.Helper()
	names, err := fs.Glob(files, "testdata/"+pattern+".safetensors")
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden file matches %s; error %v", pattern, err)
	}
	cases := make([]*Case, len(names))
	for i, name := range names {
		raw, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Read(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cases[i] = &Case{Name: strings.TrimSuffix(path.Base(name), ".safetensors"), t: t, file: f}
	}
	return cases
}

// Settings reads the settings of the case into a struct or a map.
func (c *Case) Settings(into any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.file.Metadata["case"]), into); err != nil {
		c.t.Fatalf("%s: settings: %v", c.Name, err)
	}
}

// Setting returns a number among the settings.
func (c *Case) Setting(name string) float64 {
	c.t.Helper()
	var all map[string]float64
	c.Settings(&all)
	v, ok := all[name]
	if !ok {
		c.t.Fatalf("%s: no setting %q", c.Name, name)
	}
	return v
}

// Names returns the names of the tensors.
func (c *Case) Names() []string {
	var names []string
	for _, e := range c.file.Entries {
		names = append(names, e.Name)
	}
	return names
}

// Shape returns a tensor's shape.
func (c *Case) Shape(name string) []int {
	c.t.Helper()
	return c.entry(name).Shape
}

// Floats returns a float32 tensor.
func (c *Case) Floats(name string) []float32 {
	c.t.Helper()
	return read(c, name, c.file.Float32s)
}

// Float64s returns a float64 tensor.
func (c *Case) Float64s(name string) []float64 {
	c.t.Helper()
	return read(c, name, c.file.Float64s)
}

// Labels returns an int64 tensor as labels.
func (c *Case) Labels(name string) []int32 {
	c.t.Helper()
	wide := read(c, name, c.file.Int64s)
	labels := make([]int32, len(wide))
	for i, v := range wide {
		labels[i] = int32(v)
	}
	return labels
}

func (c *Case) entry(name string) safetensors.Entry {
	c.t.Helper()
	for _, e := range c.file.Entries {
		if e.Name == name {
			return e
		}
	}
	c.t.Fatalf("%s: no tensor %q", c.Name, name)
	return safetensors.Entry{}
}

func read[T any](c *Case, name string, from func(safetensors.Entry) ([]T, error)) []T {
	c.t.Helper()
	v, err := from(c.entry(name))
	if err != nil {
		c.t.Fatalf("%s: %v", c.Name, err)
	}
	return v
}
