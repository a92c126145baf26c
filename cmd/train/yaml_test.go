package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// parseRun parses the arguments of train run.
func parseRun(t *testing.T, args ...string) (*runCmd, error) {
	t.Helper()
	var c cli
	parser, err := newParser(&c, terminal{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"run"}, args...))
	return &c.Run, err
}

// A run's config.yaml gives the run again, whatever its settings.
func TestConfigRoundTrip(t *testing.T) {
	want, err := parseRun(t, "--model=mlp", "--dataset=synthetic", "--data-dir=d: x", "--epochs=7", "--steps=9", "--batch=5", "--accumulate=2",
		"--seed=18446744073709551615", "--threads=3", "--optimizer=adam", "--lr=1e-07", "--momentum=0.5", "--weight-decay=0.001", "--nesterov",
		"--schedule=step", "--rise=0.25", "--linear", "--ema=0.99", "--no-decay=vectors", "--no-decay=*.bias", "--init=f", "--init-except=fc.*,x", "--offline", "--mirror=http://a/,b", "--mirror=https://c", "--placement=resident", "--code=replication", "--k=2", "--workers=4", "--n=5", "--join=a:1,b:2", "--min-workers=3",
		"--key=k", "--bind=127.0.0.1:7", "--advertise=127.0.0.1:8", "--wait=90s", "--pace=1.5", "--inject=slow:*@shifted-exp=1,0.5",
		"--inject=kill:2@step=9", "--survivors=random", "--checkpoint-every=11")
	if err != nil {
		t.Fatal(err)
	}
	rate, decay := 0.25, 0.0
	all := lists{
		Placements: []placementRule{{Layer: "fc*", Placement: "resident", Code: "uncoded", K: 3}, {Layer: "*", Placement: "local"}},
		Groups:     []groupRule{{Params: "fc1.*", Freeze: true}, {Params: "*", LR: &rate, WeightDecay: &decay}},
	}
	dir := t.TempDir()
	if err := (&runFolder{path: dir}).writeConfig(&want.runFlags, all); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"--config=" + filepath.Join(dir, configName), "--resume=" + dir} {
		got, err := parseRun(t, from)
		if err != nil {
			t.Fatal(err)
		}
		got.Config, got.Resume = "", ""
		if diff := cmp.Diff(want.runFlags, got.runFlags); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", from, diff)
		}
		if diff := cmp.Diff(all, got.lists); diff != "" {
			t.Errorf("%s: lists (-want +got)\n%s", from, diff)
		}
	}
}

func TestFlagsWinOverYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("epochs: 5\nbatch: 32\nwait: 1m\ninject: [\"slow:1@pareto=1,2\"]\nnesterov: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := parseRun(t, "-c", path, "--epochs", "2")
	if err != nil {
		t.Fatal(err)
	}
	if got.Epochs != 2 || got.Batch != 32 || got.Wait != time.Minute || !got.Nesterov || len(got.Inject) != 1 {
		t.Errorf("got %+v", got.runFlags)
	}
}

// Every mistake is told on one line, with its place and what was expected.
func TestYAMLMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"epochs: many\n":               `:1:9: "epochs: many": want a whole number`,
		"lr: [1]\n":                    `:1:5: "lr: [1]": want a number`,
		"model: mlp\nwait: 3\n":        `:2:7: "wait: 3": want a duration such as 30s`,
		"nesterov: 7\n":                `:1:11: "nesterov: 7": want true or false`,
		"model: {a: b}\n":              `:1:8: "model: {a: b}": want a text`,
		"placements: all\n":            `:1:13: "placements: all": string was used where sequence is expected`,
		"batch: 3\nmomentun: 1\n":      `:2:1: "momentun: 1": unknown field "momentun"`,
		"batch: 3\nbatch: 4\n":         `:2:1: "batch: 4": mapping key "batch" already defined`,
		"epochs: [1,2\n":               `:1:9: "epochs: [1,2": sequence end token ']' not found`,
		"- a\n- b\n":                   `:1:1: "- a": sequence was used where mapping is expected`,
		"groups:\n- {lr: high}\n":      `:2:8: "- {lr: high}": want a number`,
		"groups:\n- {param: x}\n":      `:2:4: "- {param: x}": unknown field "param"`,
		"placements:\n- {layers: x}\n": `:2:4: "- {layers: x}": unknown field "layers"`,
	} {
		_, err := yamlLoader(new(lists))(bytes.NewBufferString(text))
		if err == nil || !strings.HasPrefix(err.Error(), "YAML"+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error\n%v, want\nYAML%s", text, err, want)
		}
	}
}

func TestEmptyYAML(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "epochs:\n"} {
		var resolver kong.Resolver
		resolver, err := yamlLoader(new(lists))(bytes.NewBufferString(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if v, err := resolver.Resolve(nil, nil, &kong.Flag{Value: &kong.Value{Name: "epochs"}}); v != nil || err != nil {
			t.Errorf("%q: epochs is %v, %v, want nothing", text, v, err)
		}
	}
}
