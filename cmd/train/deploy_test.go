package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const deployDir = "../../deploy"

func readDeployed(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{deployDir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parses tells whether the command line takes some arguments.
func parses(t *testing.T, args []string) {
	t.Helper()
	var c cli
	parser, err := newParser(&c, terminal{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Errorf("train %s: %v", strings.Join(args, " "), err)
	}
}

// object is a Kubernetes object, as far as the test looks at it.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec struct {
		ClusterIP   string `yaml:"clusterIP"`
		NotReady    bool   `yaml:"publishNotReadyAddresses"`
		ServiceName string `yaml:"serviceName"`
		Ports       []port `yaml:"ports"`
		Template    *struct {
			Spec pod `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type port struct {
	Name     string `yaml:"name"`
	Port     int    `yaml:"port"`
	Number   int    `yaml:"containerPort"`
	Protocol string `yaml:"protocol"`
}

type pod struct {
	Containers []struct {
		Args   []string `yaml:"args"`
		Ports  []port   `yaml:"ports"`
		Mounts []struct {
			Name string `yaml:"name"`
		} `yaml:"volumeMounts"`
	} `yaml:"containers"`
	Volumes []struct {
		Name string `yaml:"name"`
	} `yaml:"volumes"`
}

func TestKubernetesFile(t *testing.T) {
	kinds := map[string]object{}
	for _, text := range strings.Split(readDeployed(t, "kubernetes", "coda.yaml"), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		kinds[o.Kind] = o
	}
	service, set, job := kinds["Service"], kinds["StatefulSet"], kinds["Job"]
	if len(kinds) != 3 || service.Spec.ClusterIP != "None" || !service.Spec.NotReady || set.Spec.ServiceName != service.Metadata.Name {
		t.Fatalf("want a headless service that publishes all addresses, a set that uses it, and a job: %+v", kinds)
	}
	for _, o := range []object{set, job} {
		c := o.Spec.Template.Spec.Containers[0]
		parses(t, c.Args)
		if !slices.Contains(c.Args, "--join="+service.Metadata.Name+":7946") {
			t.Errorf("%s: args %q do not join by the service's name", o.Kind, c.Args)
		}
		if !slices.ContainsFunc(c.Ports, func(p port) bool {
			return p.Name == "metrics" && slices.Contains(c.Args, "--metrics=0.0.0.0:9464") && p.Number == 9464
		}) {
			t.Errorf("%s: the metrics of %q are not at port 9464 of %+v", o.Kind, c.Args, c.Ports)
		}
		for _, m := range c.Mounts {
			if !slices.ContainsFunc(o.Spec.Template.Spec.Volumes, func(v struct {
				Name string `yaml:"name"`
			}) bool {
				return v.Name == m.Name
			}) {
				t.Errorf("%s: no volume %s", o.Kind, m.Name)
			}
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	settings := map[string]string{"${CREDENTIALS_DIRECTORY}": "/run/credentials/coda-worker.service", "%H": "host"}
	for line := range strings.Lines(readDeployed(t, "systemd", "worker.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings["${"+name+"}"], settings["$"+name] = value, value
		}
	}
	unit := readDeployed(t, "systemd", "coda-worker.service")
	command := ""
	for line := range strings.Lines(unit) {
		if c, ok := strings.CutPrefix(line, "ExecStart="); ok {
			command = c
		}
	}
	var args []string
	for _, word := range strings.Fields(command)[1:] {
		for name, value := range settings {
			word = strings.ReplaceAll(word, name, value)
		}
		if word != "" {
			args = append(args, word)
		}
	}
	parses(t, args)
	if text := strings.Join(args, " "); strings.ContainsAny(text, "$%") || !strings.Contains(text, "--key /run/credentials/coda-worker.service/cluster.key") {
		t.Errorf("the command becomes %q", text)
	}
}

func TestDockerfile(t *testing.T) {
	text := readDeployed(t, "docker", "Dockerfile")
	if !strings.Contains(text, "CGO_ENABLED=0") || !strings.Contains(text, "\nFROM scratch\n") {
		t.Error("want a static build on an empty image")
	}
	_, command, _ := strings.Cut(text, "\nCMD ")
	var args []string
	if err := yaml.Unmarshal([]byte(command), &args); err != nil {
		t.Fatal(err)
	}
	parses(t, args)
}

func TestWorkerDataAddress(t *testing.T) {
	for _, c := range []struct{ bind, data, want string }{
		{"10.0.0.3:7946", "", "10.0.0.3:0"},
		{"10.0.0.3:7946", ":7947", "10.0.0.3:7947"},
		{":7946", ":7947", ":7947"},
		{"10.0.0.3:7946", "127.0.0.1:7947", "127.0.0.1:7947"},
		{"[fd00::3]:7946", ":7947", "[fd00::3]:7947"},
	} {
		w := workerCmd{Bind: c.bind, Data: c.data}
		if got, err := w.dataAddr(); err != nil || got != c.want {
			t.Errorf("--bind %s --data %q: data at %q, %v; want %s", c.bind, c.data, got, err, c.want)
		}
	}
	for _, c := range []struct{ bind, data, want string }{{"10.0.0.3", "", "--bind 10.0.0.3: "}, {":7946", "7947", "--data 7947: "}} {
		w := workerCmd{Bind: c.bind, Data: c.data}
		if _, err := w.dataAddr(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("--bind %s --data %q: error %v, want %q", c.bind, c.data, err, c.want)
		}
	}
}
