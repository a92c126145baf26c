package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func simRows(t *testing.T, b *benchCmd) []simRow {
	t.Helper()
	var got []simRow
	if err := benchSim(t.Context(), b, func(row any) error { got = append(got, row.(simRow)); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestBenchSim(t *testing.T) {
	flags := simFlags{Rounds: 40, Chunks: []int{24, 48}, Seed: 3}
	got := simRows(t, &benchCmd{Workers: 8, K: 6, Threads: 1, simFlags: flags})
	if want := len(defaultStragglers) * 11; len(got) != want {
		t.Fatalf("%d rows, want %d", len(got), want)
	}
	for _, row := range got {
		if row.N != 8 || row.K != 6 || row.Seed != 3 || row.Failed != 0 || row.StepMSP99 < row.StepMSMean/2 || row.IdealMS < 750-1e-6 {
			t.Errorf("row %+v", row)
		}
		if row.Straggler == "none" && row.Strategy == "mds" && (row.StepMSMean != 1000 || row.WastedWork != 0.25) {
			t.Errorf("a shard takes a second, and two of eight are too many: %+v", row)
		}
	}
	flags.Strategy = []string{"mds", "adaptive"}
	for i, row := range simRows(t, &benchCmd{Workers: 8, K: 6, simFlags: flags}) {
		if want := []string{"mds", "adaptive", "adaptive"}[i%3]; row.Strategy != want {
			t.Errorf("row %d is of %s, want %s", i, row.Strategy, want)
		}
	}
	odd := &benchCmd{Workers: 7, K: 5, simFlags: flags}
	odd.Strategy = []string{"replicated"}
	if err := benchSim(t.Context(), odd, func(any) error { return nil }); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), `"replicated"`) {
		t.Errorf("two copies on seven workers: error %v", err)
	}
	flags.Strategy = nil
	flags.Straggler = []string{"kill:1@step=1"}
	for _, row := range simRows(t, &benchCmd{Workers: 7, K: 5, simFlags: flags}) {
		if row.Strategy == "uncoded" && (row.Failed != 40 || row.StepMSMean != 0) || row.Strategy == "replicated" || row.Strategy == "adaptive" && row.Failed != 0 {
			t.Errorf("one of seven is dead: %+v", row)
		}
	}
}

func TestBenchSimTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	const trace = "# coda-trace 1\nrun,round,worker,from_s,load,compute_s,comm_s\n1,1,1,0,1,2,0\n1,1,2,0,1,4,0\n"
	if err := os.WriteFile(path, []byte(trace), 0o644); err != nil {
		t.Fatal(err)
	}
	b := &benchCmd{Workers: 2, K: 1, simFlags: simFlags{Rounds: 2, Straggler: []string{"trace=" + path}}}
	for _, row := range simRows(t, b) {
		if row.Strategy == "mds" && row.StepMSMean != 2000 {
			t.Errorf("row %+v, want the faster worker's 2 s", row)
		}
	}
	for spec, want := range map[string]string{"trace=" + path + "x": "no such file", "slow:3@x=2": "from 1 to 2"} {
		b.Straggler = []string{spec}
		err := benchSim(t.Context(), b, func(any) error { return nil })
		if u := (usageError{}); !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want a usage error with %q", spec, err, want)
		}
	}
}
