package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// parseRun parses the arguments of train run.
func parseRun(t *testing.T, args ...string) (*runCmd, error) {
	t.Helper()
	c, err := parseQuietly(append([]string{"run"}, args...)...)
	if c == nil {
		t.Fatal(err)
	}
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
		if diff := cmp.Diff(all, got.lists, cmpopts.IgnoreUnexported(placementRule{}, groupRule{})); diff != "" {
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
		"epochs: many\n":                      `:1:9: "epochs: many": want a whole number`,
		"lr: [1]\n":                           `:1:5: "lr: [1]": want a number`,
		"model: mlp\nwait: 3\n":               `:2:7: "wait: 3": want a duration such as 30s`,
		"nesterov: 7\n":                       `:1:11: "nesterov: 7": want true or false`,
		"model: {a: b}\n":                     `:1:8: "model: {a: b}": want a text`,
		"placements: all\n":                   `:1:13: "placements: all": want a list`,
		"batch: 3\nmomentun: 1\n":             `:2:1: "momentun: 1": unknown field "momentun"`,
		"a\x1b[31m: 1\n":                      `:1:1: "a\x1b[31m: 1": unknown field "a?[31m"`,
		"batch: 3\nbatch: 4\n":                `:2:1: "batch: 4": mapping key "batch" already defined`,
		"epochs: [1,2\n":                      `:1:9: "epochs: [1,2": sequence end token ']' not found`,
		"- a\n- b\n":                          `:1:1: "- a": want keys with values`,
		"placements:\n- fc1\n":                `:2:3: "- fc1": want keys with values`,
		"placements:\n- {k: 2.5}\n":           `:2:7: "- {k: 2.5}": want a whole number`,
		"batch: 2.5\n":                        `:1:8: "batch: 2.5": want a whole number`,
		"metrics: 2\nseed: -0.5\n":            `:2:7: "seed: -0.5": want a whole number`,
		"steps: 9999999999999999999\n":        `:1:8: "steps: 9999999999999999999": want a whole number`,
		"seed: 1\n---\nseed: 2\n":             `:3:5: "seed: 2": a second document, want one`,
		"join: " + strings.Repeat("[", 9999):  `:1:39: "join: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[": brackets in more than 32 others`,
		"# " + strings.Repeat("x", maxConfig): `: more than 262144 bytes, which is too much for settings`,
		"groups:\n- {lr: high}\n":             `:2:8: "- {lr: high}": want a number`,
		"groups:\n- {param: x}\n":             `:2:4: "- {param: x}": unknown field "param"`,
		"placements:\n- {layers: x}\n":        `:2:4: "- {layers: x}": unknown field "layers"`,
	} {
		_, err := yamlLoader(new(lists))(bytes.NewBufferString(text))
		if err == nil || !strings.HasPrefix(err.Error(), "YAML"+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error\n%v, want\nYAML%s", text, err, want)
		}
	}
}

func TestEmptyYAML(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "epochs:\n", "---\n", "---\nbatch: 2\n---\n"} {
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

// Entries of lists know their lines, whatever their form.
func TestYAMLEntriesKnowTheirLines(t *testing.T) {
	var l lists
	text := "\ufeff# a run\r\nplacements: &all [{layer: a},\n  {layer: b}]\ngroups:\n\n- params: '*'\n  lr: 1e-3\n- # the rest\n  {params: x}\nbatch: 1e2\n"
	if _, err := yamlLoader(&l)(bytes.NewBufferString(text)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range l.Placements {
		got = append(got, p.at)
	}
	for _, g := range l.Groups {
		got = append(got, g.at)
	}
	if want := []string{"YAML:2", "YAML:3", "YAML:6", "YAML:9"}; !slices.Equal(got, want) {
		t.Errorf("entries at %v, want %v", got, want)
	}
}

// Whatever is in a file, it is settings or an error of one line.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{
		"", "model: mlp\nbatch: 3\n", "placements:\n- {layer: fc1, placement: batch, k: 3}\ngroups: [{params: '*', lr: 0.1}]\n",
		"a: &a [1]\nb: *a\n<<: {c: d}\n", "---\n# x\n---\n- ? a\n  : |\n   b\n", "join: [a:1, \"b:2\"]\nwait: 3s\n", "{[,!!int 'x\t\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, _, err := parseSettings(bytes.NewReader(text))
		if (settings == nil) == (err == nil) {
			t.Fatalf("settings %v with error %v", settings, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("error of several lines: %q", err)
		}
	})
}
