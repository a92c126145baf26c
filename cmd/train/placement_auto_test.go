package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
)

func TestAnnouncedSpeeds(t *testing.T) {
	worker := func(speed float64) dist.Member { return dist.Member{Role: dist.RoleWorker, Speed: speed} }
	leaving, other := worker(9), dist.Member{Role: dist.RoleCoordinator}
	leaving.Draining = true
	for _, c := range []struct {
		members []dist.Member
		want    []float64
	}{
		{[]dist.Member{other, worker(2), leaving, worker(3), worker(4)}, []float64{2e9, 3e9}},
		{[]dist.Member{worker(2), worker(0)}, nil},
		{[]dist.Member{worker(2), leaving}, nil},
	} {
		if got := announcedSpeeds(c.members, 2); !slices.Equal(got, c.want) {
			t.Errorf("speeds %v of %v, want %v", got, c.members, c.want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:7": true, "[::1]:7": true, "10.0.0.1:7": false, "localhost": false} {
		if isLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}

// What the planner says is what auto does; a rule of another placement is not asked.
func TestAutoAsksThePlanner(t *testing.T) {
	for speed, want := range map[float64]string{1e6: plan.Local, 1e12: plan.Resident} {
		flags := parseValid(t, "--model=mlp --workers=6 --k=4", lists{})
		r := &run{runFlags: flags, train: &datasets.Set{Shape: []int{1, 28, 28}, Classes: 10}}
		if err := r.buildModel(); err != nil {
			t.Fatal(err)
		}
		r.Placements = []placementRule{{Layer: "fc2", Placement: plan.Local}}
		var err error
		if r.planned, err = r.planOn(t.Context(), plan.Loopback(1e10, slices.Repeat([]float64{speed}, 6)...)); err != nil {
			t.Fatal(err)
		}
		if err := r.place(); err != nil {
			t.Fatal(err)
		}
		if l := r.layers[0]; l.Placement != want || !strings.Contains(l.Reason, " here") {
			t.Errorf("workers of %v flop/s: %s is %s because %q, want %s", speed, l.Layer, l.Placement, l.Reason, want)
		}
		if l := r.layers[1]; l.Placement != plan.Local || l.Reason != "as asked" {
			t.Errorf("%s is %s because %q", l.Layer, l.Placement, l.Reason)
		}
	}
}
