package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRunFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, want := range []string{"runs/mlp-mnist-20300102-030405", "runs/mlp-mnist-20300102-030405-2", "runs/mlp-mnist-20300102-030405-3"} {
		f, err := openRunFolder("", "", "mlp", "mnist", now)
		if err != nil || filepath.ToSlash(f.path) != want {
			t.Fatalf("folder %+v, error %v, want %s", f, err, want)
		}
		if !exists(f.join(checkpointsName)) || !exists(f.join("logs")) {
			t.Errorf("%s is not complete", f.path)
		}
	}
}

// What a run has made is gone when it does not begin; what was there is not.
func TestDiscard(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("mine", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{"", "new", "new/deep/er", "mine", "mine/new"} {
		f, err := openRunFolder(out, "", "mlp", "mnist", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.writeConfig(&runFlags{}, lists{}); err != nil {
			t.Fatal(err)
		}
		if err := f.discard(); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, pattern := range []string{"*", "*/*"} {
			names, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, names...)
		}
		if strings.Join(left, " ") != "mine" {
			t.Errorf("--out %q: %q are left, want mine alone", out, left)
		}
	}
}

// A new run does not mix with another; one that goes on may.
func TestRunFolderIsTaken(t *testing.T) {
	t.Chdir(t.TempDir())
	f, err := openRunFolder("a", "", "mlp", "mnist", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.writeConfig(&runFlags{}, lists{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		out, resume string
		ok          bool
	}{{"a", "", false}, {"./a", "", false}, {"a", "b", false}, {"", "a", true}, {"a", "a", true}, {"a/../a", "a", true}, {"c", "a", true}} {
		if _, err := openRunFolder(test.out, test.resume, "mlp", "mnist", time.Now()); (err == nil) != test.ok {
			t.Errorf("--out %q --resume %q: error %v", test.out, test.resume, err)
		}
	}
}

// A half line at the end, which a killed run may leave, does not spoil the next.
func TestOpenAppend(t *testing.T) {
	for before, want := range map[string]string{
		"":                       "{}\n",
		"{1}\n":                  "{1}\n{}\n",
		"{1}\n{2":                "{1}\n{}\n",
		"{":                      "{}\n",
		strings.Repeat("x", 5e5): "{}\n",
	} {
		path := filepath.Join(t.TempDir(), "metrics")
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := openAppend(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString("{}\n")
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%.20q became %.20q, %v, want %q", before, got, err, want)
		}
	}
}

func TestDatasetName(t *testing.T) {
	for dataset, want := range map[string]string{"mnist": "mnist", "folder:/data/pets": "pets", "folder:a/b.tar.gz": "b.tar.gz"} {
		if got := datasetName(dataset); got != want {
			t.Errorf("%s: %q, want %q", dataset, got, want)
		}
	}
}
