package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// With --verify a worker that answers wrongly does no harm.
func TestVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	common := []string{"run", "--dataset=synthetic", "--model=mlp", "--steps=40", "--json=-"}
	loss := func(rest string) (last float64) {
		for line := range strings.Lines(rest) {
			var e struct{ Loss float64 }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			last = max(last, e.Loss)
		}
		return last
	}
	rest, status := start(t, append(common, "--verify", "--inject=corrupt:2@p=0.5")...).wait()
	if status != exitDone || !strings.Contains(rest, `"worker":"worker-2","state":"quarantined"`) {
		t.Errorf("exit status %d, want 0 after a quarantine: %s", status, rest)
	}
	if err := checkEvents([]byte(rest), "done", 40); err != nil {
		t.Error(err)
	}
	honest, status := start(t, append(common, "--verify")...).wait()
	if status != exitDone || strings.Contains(honest, "quarantined") {
		t.Errorf("exit status %d of a run of honest workers: %s", status, honest)
	}
	if with, without := loss(rest), loss(honest); with > 1.1*without {
		t.Errorf("largest loss %g with a liar, %g without", with, without)
	}
}

// Whatever the placement, of convolutions and of linear layers: a liar is found, and
// nobody else.
func TestVerifyPlacements(t *testing.T) {
	for name, rules := range map[string]string{
		"resident": `{layer: "*", placement: resident}`,
		"batch":    `{layer: "*", placement: batch}`,
		"gradient": `{layer: "*", placement: batch, k: 3, gradient: workers}`,
		"parts":    `{layer: "*", placement: batch, gradient: cyclic-reed-solomon}`,
		"shipped":  `{layer: conv1, placement: local}, {layer: "*", placement: shipped, code: ortho-polynomial}`,
		"summed":   `{layer: conv1, placement: local}, {layer: "*", placement: shipped, code: matdot, k: 3}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("run.yaml", []byte("placements: ["+rules+"]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			rest, status := start(t, "run", "--dataset=synthetic", "--model=lenet", "--steps=30", "--batch=16", "--json=-",
				"-c", "run.yaml", "--verify", "--inject=corrupt:2@p=1").wait()
			if status != exitDone || !strings.Contains(rest, `"worker":"worker-2","state":"quarantined"`) {
				t.Errorf("exit status %d, want 0 after a quarantine: %s", status, rest)
			}
			for _, honest := range []string{"1", "3", "4", "5", "6"} {
				if strings.Contains(rest, `"worker":"worker-`+honest+`","state":"quarantined"`) {
					t.Errorf("worker-%s, which is honest, was quarantined: %s", honest, rest)
				}
			}
		})
	}
}
