package sim

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// A recorded trace gives the same rounds as the model that it was recorded from,
// to the bit.
func TestReplayEqualsRecord(t *testing.T) {
	const n, rounds = 6, 25
	for _, spec := range append(specs, "none") {
		m := model(t, spec, n)
		var file bytes.Buffer
		if err := Record(&file, m, 3, n, rounds); err != nil {
			t.Fatal(err)
		}
		trace, err := ReadTrace(&file, "test", 0)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if trace.Rounds() != rounds || trace.Workers() != n {
			t.Fatalf("%s: a trace of %d rounds and %d workers, want %d and %d", spec, trace.Rounds(), trace.Workers(), rounds, n)
		}
		for _, s := range []Strategy{MDS{4}, Adaptive{4, 5}} {
			c := Config{Job: KOfN(n, 4), Strategy: s, Model: m, Seed: 3, Rounds: rounds}
			want := simulate(t, c)
			c.Model, c.Seed = trace, 99
			if got := simulate(t, c); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: the replay differs", spec, s.Name())
			}
			c.Rounds = 2 * rounds
			if got := simulate(t, c); !reflect.DeepEqual(got.Rounds[rounds:], want.Rounds) {
				t.Errorf("%s, %s: the trace does not begin again", spec, s.Name())
			}
		}
	}
}

const head = traceVersion + "\n" + traceHeader + "\n"

func TestReadTrace(t *testing.T) {
	const text = head + "1,1,1,0,0.5,1,0\n1,1,3,0,1,1.5,0.25\n1,1,3,2,1,inf,0\n1,4,2,0.5,1,1,0\n2,1,1,0,1,7,0\n"
	trace, err := ReadTrace(strings.NewReader(text), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	inf := math.Inf(1)
	for round, want := range [][]Pace{
		{{Slowness: 2}, {Slowness: inf}, {inf, []Change{{0.25, 1.5}, {2, inf}}}},
		{{Slowness: inf}, {inf, []Change{{0.5, 1}}}, {Slowness: inf}},
	} {
		if got := paces(trace, 3, 0, round+1); !reflect.DeepEqual(got, want) {
			t.Errorf("round %d: %v, want %v", round+1, got, want)
		}
	}
	second, err := ReadTrace(strings.NewReader(text), "t", 2)
	if err != nil || second.Rounds() != 1 || second.Workers() != 1 {
		t.Errorf("run 2: %+v, %v", second, err)
	}
	_, err = Run(t.Context(), Config{Job: KOfN(4, 2), Strategy: Uncoded{}, Model: Together{None{}, trace}, Rounds: 1})
	if err == nil || !strings.Contains(err.Error(), "has 3 workers, want 4") {
		t.Errorf("too few workers: error %v", err)
	}
	if err := Record(&bytes.Buffer{}, trace, 1, 4, 1); err == nil {
		t.Error("a trace of 3 workers is recorded for 4")
	}
}

func TestReadTraceRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no header",
		traceVersion:                            "no header",
		"# coda-trace 2\n":                      "line 1: column 1",
		traceVersion + "\nrun\n":                "line 2: column 1",
		head:                                    "no sample",
		head + "1,1,1,0,1,1\n":                  "line 3: column 12: 6 fields, want 7",
		head + "1,1,1,0,1,1,0,\n":               "8 fields",
		head + "x,1,1,0,1,1,0\n":                `line 3: column 1: run "x"`,
		head + "1,0,1,0,1,1,0\n":                `column 3: round "0"`,
		head + "1,1,2000000,0,1,1,0\n":          `column 5: worker`,
		head + "1,1,1,-1,1,1,0\n":               `column 7: from_s "-1"`,
		head + "1,1,1,0,0,1,0\n":                `column 9: load "0": want more than 0`,
		head + "1,1,1,0,1,0,0\n":                `column 11: compute_s "0": want more than 0`,
		head + "1,1,1,0,1,nan,0\n":              `column 11: compute_s "nan"`,
		head + "1,1,1,0,1,1,inf\n":              `column 13: comm_s "inf"`,
		head + "1,1,1,0,1,1,0\n1,1,1,0,1,1,0":   "line 4: column 1",
		head + "1,2,1,0,1,1,0\n1,1,1,0,1,1,0":   "ascending",
		head + strings.Repeat("1", 2000) + "\n": "line 3: want at most 1024 bytes",
	} {
		if _, err := ReadTrace(strings.NewReader(text), "t", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := ReadTrace(strings.NewReader(head+"1,1,1,0,1,1,0\n"), "t", 2); err == nil || !strings.Contains(err.Error(), "no run 2") {
		t.Errorf("a run that is not there: error %v", err)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestRecordReportsWriting(t *testing.T) {
	if err := Record(brokenWriter{}, None{}, 1, 2, 1); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want %v", err, errBroken)
	}
	if err := Record(brokenWriter{}, None{}, 1, 2, 10000); !errors.Is(err, errBroken) {
		t.Errorf("error %v of a long trace, want %v", err, errBroken)
	}
}

// Whatever bytes come: an error, or a trace that can be run.
func FuzzReadTrace(f *testing.F) {
	f.Add(head + "1,1,1,0,1,1.5,0\n1,1,2,0.5,0.5,inf,0.1\n")
	f.Add(head + "1,1,1,0,1,1,0\n1,1,1,1,1,2,0\n1,2,2,0,1,1,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text), "fuzz", 0)
		if err != nil {
			return
		}
		n := min(trace.Workers(), 8)
		s, err := Run(t.Context(), Config{Job: KOfN(n, n), Strategy: Adaptive{n, 2}, Model: trace, Rounds: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Rounds {
			if math.IsNaN(r.Time) || math.IsNaN(r.Ideal) || r.Time < 0 {
				t.Fatalf("round %+v", r)
			}
		}
	})
}
