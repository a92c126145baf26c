package main

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coda-ml/coda/dist/sim"
)

func serveRows(t *testing.T, b *benchCmd) ([]serveRow, error) {
	t.Helper()
	var got []serveRow
	err := benchServe(t.Context(), b, func(row any) error { got = append(got, row.(serveRow)); return nil })
	return got, err
}

func serving(change func(*benchCmd)) *benchCmd {
	b := &benchCmd{
		Workers: 8, K: 6, simFlags: simFlags{Chunks: []int{8}, Seed: 3},
		serveFlags: serveFlags{Rate: 50, Utilisation: 0.3, Requests: 2000, Pieces: 6, Queue: 1, Clock: []string{"virtual"}},
	}
	change(b)
	return b
}

func TestBenchServe(t *testing.T) {
	got, err := serveRows(t, serving(func(*benchCmd) {}))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("%d rows, want uncoded, mds and adaptive", len(got))
	}
	for i, row := range got {
		if want := []string{"uncoded", "mds", "adaptive"}[i]; row.Strategy != want || row.Requests != 2000 || row.Failed != 0 {
			t.Errorf("row %d: %+v, want 2000 requests of %s", i, row, want)
		}
		if !(row.P50MS <= row.P99MS && row.P99MS <= row.P999MS && row.Busy > 0.1 && row.Busy < 0.3) {
			t.Errorf("row %+v", row)
		}
		if want := row.P999MS / got[0].P999MS; row.OfUncoded != want {
			t.Errorf("%s: %v of uncoded, want %v", row.Strategy, row.OfUncoded, want)
		}
	}
	if !(got[2].OfUncoded < 0.6) {
		t.Errorf("adaptive is at %v of uncoded, want below 0.6", got[2].OfUncoded)
	}
	again, err := serveRows(t, serving(func(*benchCmd) {}))
	if d := cmp.Diff(got, again); err != nil || d != "" {
		t.Errorf("the same seed gives other rows: %v %s", err, d)
	}
	// Twice the requests a second and workers twice as fast take half the time.
	faster, err := serveRows(t, serving(func(b *benchCmd) { b.Rate = 100 }))
	if err != nil || math.Abs(2*faster[0].P99MS-got[0].P99MS) > 1e-9*got[0].P99MS {
		t.Errorf("at twice the rate %v ms, at the single one %v: %v", faster[0].P99MS, got[0].P99MS, err)
	}
}

func TestBenchServeRefuses(t *testing.T) {
	for want, change := range map[string]func(*benchCmd){
		"--straggler":  func(b *benchCmd) { b.Straggler = []string{"slow"} },
		"--rate 0,":    func(b *benchCmd) { b.Rate = 0 },
		"utilisation":  func(b *benchCmd) { b.Utilisation = 1.5 },
		"--strategy":   func(b *benchCmd) { b.Strategy = []string{"best"} },
		"distribution": func(b *benchCmd) { b.Clock, b.Straggler = []string{"real"}, []string{"some:2@x=2"} },
		"together -1":  func(b *benchCmd) { b.Together = -1 },
		"--pieces 0":   func(b *benchCmd) { b.Pieces = 0 },
		"--queue 0":    func(b *benchCmd) { b.Queue = 0 },
		"0 rounds":     func(b *benchCmd) { b.Requests = 0 },
	} {
		_, err := serveRows(t, serving(change))
		if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a mistake in the arguments that mentions %q", err, want)
		}
	}
}

func TestInPieces(t *testing.T) {
	all := []sim.Strategy{sim.Uncoded{}, sim.MDS{K: 6}, sim.Adaptive{K: 6, Chunks: 24}, sim.Adaptive{K: 6, Chunks: 48}}
	want := []sim.Strategy{sim.Uncoded{}, sim.MDS{K: 6}, sim.Adaptive{K: 6, Chunks: 4}}
	if d := cmp.Diff(want, inPieces(all, 4)); d != "" {
		t.Error(d)
	}
}

// Workers of this process serve as those of others do, and all leave.
func TestBenchServeHere(t *testing.T) {
	got, err := serveRows(t, serving(func(b *benchCmd) {
		b.Clock, b.Here, b.Workers, b.K, b.Pieces, b.Seconds = []string{"real"}, true, 3, 2, 4, 0.2
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []serveRow{{Strategy: "uncoded", Chunks: 1}, {Strategy: "mds", Chunks: 1}, {Strategy: "adaptive", Chunks: 4}} {
		if row := got[i]; row.Strategy != want.Strategy || row.Chunks != want.Chunks || row.Requests != 10 || row.Queue != 1 || row.Processes != 0 || !(row.P50MS > 0) {
			t.Errorf("row %d: %+v, want 10 requests like %+v", i, row, want)
		}
	}
}
