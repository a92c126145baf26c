package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseFault(t *testing.T) {
	for spec, want := range map[string]fault{
		"kill:2@step=300":           {what: "kill", workers: []int{2}, step: 300},
		"restart:2+4@step=150":      {what: "restart", workers: []int{2, 4}, step: 150},
		"freeze:*@step=50,for=5s":   {what: "freeze", step: 50, pause: 5 * time.Second},
		"slow:1@x=4":                {what: "slow", workers: []int{1}, slow: "x=4"},
		"slow:*@shifted-exp=1,0.5":  {what: "slow", slow: "shifted-exp=1,0.5"},
		"slow:3@pareto=1,2":         {what: "slow", workers: []int{3}, slow: "pareto=1,2"},
		"partition:2@step=8,for=3s": {what: "partition", workers: []int{2}, step: 8, pause: 3 * time.Second},
		"drop:*@p=0.05":             {what: "drop", p: 0.05},
		"corrupt:5@p=1":             {what: "corrupt", workers: []int{5}, p: 1},
		"freeze:6@for=100ms,step=1": {what: "freeze", workers: []int{6}, step: 1, pause: 100 * time.Millisecond},
	} {
		got, err := parseFault(spec, 6)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(fault{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", spec, diff)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"kill":                    "WHAT:WHO@WHEN",
		"melt:1@step=3":           `unknown fault "melt"; known: corrupt, drop, freeze, kill, partition, restart, slow`,
		"kill:7@step=3":           "only 6 workers",
		"kill:0@step=3":           "number from 1",
		"kill:a@step=3":           "number from 1",
		"kill:1@step=0":           "step from 1",
		"kill:1@epoch=2":          "unknown condition",
		"kill:1@step=2,for=3s":    "unknown condition",
		"freeze:1@step=2":         "incomplete",
		"freeze:1@step=2,for=-3s": "duration",
		"partition:1@step=2":      "incomplete",
		"partition:1@for=2s":      "want step=N,for=DURATION",
		"drop:1@p=0":              "probability above 0",
		"drop:1@p=1.5":            "probability above 0",
		"drop:1@step=3":           "probability above 0",
		"corrupt:1@p=NaN":         "probability above 0",
		"corrupt:1@0.1":           "want p=PROBABILITY",
		"slow:1@x=0":              "positive number",
		"slow:1@x=NaN":            "positive number",
		"slow:1@pareto=1":         "2 numbers wanted",
		"slow:1@speed=1":          "unknown slowdown",
	} {
		if _, err := parseFault(spec, 6); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", spec, err, want)
		}
	}
}

func TestParseFaultsReportsEveryProblem(t *testing.T) {
	_, err := parseFaults([]string{"kill:9@step=1", "kill:1@step=1", "boil:1@step=1"}, 6)
	if err == nil || strings.Count(err.Error(), "--inject") != 2 {
		t.Errorf("error %v, want two problems", err)
	}
}

// The faults that a worker has from its beginning are its arguments.
func TestFaultArguments(t *testing.T) {
	for spec, want := range map[string][]string{
		"slow:1@pareto=1,2":         {"--slow", "pareto=1,2"},
		"drop:1@p=0.05":             {"--drop", "0.05"},
		"corrupt:1@p=1e-3":          {"--corrupt", "0.001"},
		"kill:1@step=2":             nil,
		"partition:1@step=2,for=1s": nil,
	} {
		f, err := parseFault(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.args()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", spec, diff)
		}
	}
}
