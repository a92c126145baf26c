package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
)

func TestMachinesOfAnnouncedWorkers(t *testing.T) {
	worker := func(speed float64) dist.Member {
		return dist.Member{Role: dist.RoleWorker, Speed: speed, Addr: fmt.Sprintf("10.0.0.%g:7000", speed)}
	}
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
		if got := machinesOf(1e9, "10.0.0.1:1", announced(c.members, 2)).Speeds; !slices.Equal(got, c.want) {
			t.Errorf("speeds %v of %v, want %v", got, c.members, c.want)
		}
	}
	for self, want := range map[string][]int{"10.0.0.3:9": {1}, "10.0.0.1:7000": nil} {
		m := machinesOf(1e9, self, []dist.Member{worker(2), worker(3)})
		if !slices.Equal(m.Beside, want) || m.Message != plan.LAN(1).Message {
			t.Errorf("coordinator %s: %+v, want %v beside it", self, m, want)
		}
	}
	here := worker(2)
	here.Addr = "127.0.0.1:5"
	if m := machinesOf(1e9, "127.0.0.1:6", []dist.Member{here}); !slices.Equal(m.Beside, []int{0}) || m.Latency != plan.Loopback(1).Latency {
		t.Errorf("on one machine: %+v", m)
	}
}

// Slots are those of the workers' names; who has left has no machine.
func TestSlotsByHost(t *testing.T) {
	worker := func(name, addr string) dist.Member { return dist.Member{Name: name, Role: dist.RoleWorker, Addr: addr} }
	members := []dist.Member{worker("a", "10.0.0.1:1"), worker("b", "10.0.0.2:1"), worker("c", "10.0.0.1:2"), {Name: "d", Role: dist.RoleCoordinator, Addr: "10.0.0.3:1"}}
	hosts, slots := slotsByHost([]string{"b", "c", "gone", "a", "d", ""}, members)
	want := map[string][]int{"10.0.0.2": {0}, "10.0.0.1": {1, 3}}
	if !slices.Equal(hosts, []string{"10.0.0.2", "10.0.0.1"}) || !maps.EqualFunc(slots, want, slices.Equal) {
		t.Errorf("%v, %v, want %v", hosts, slots, want)
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:7": true, "[::1]:7": true, "10.0.0.1:7": false, "localhost": false} {
		if isLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}

// autoRun places the layers of an MLP as a run with the flags would.
func autoRun(t *testing.T, m plan.Machines, flags string, rules ...placementRule) *run {
	t.Helper()
	with := lists{Placements: rules}
	r := &run{runFlags: parseValid(t, "--model=mlp --dataset=synthetic --workers=6 --k=4 "+flags, with), lists: with}
	for _, stage := range []func() error{
		func() error { return r.loadData(t.Context()) }, r.buildModel, r.setParams, r.buildOptimizer,
		func() error { return r.planOn(t.Context(), m) }, r.place, r.checkPlaced,
	} {
		if err := stage(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// loopback are machines of their own, as close as if they were one.
func loopback(here, workers float64) plan.Machines {
	m := plan.Loopback(here, slices.Repeat([]float64{workers}, 6)...)
	m.Beside = nil
	return m
}

// What the planner says is what auto does: workers that are slower than the coordinator,
// or behind a slow network, get nothing. A rule of another placement comes first.
func TestAutoAsksThePlanner(t *testing.T) {
	wire := loopback(1e10, 1e12)
	wire.Bandwidth = 1e6
	for want, c := range map[string]struct {
		machines  plan.Machines
		placement string
	}{
		"the workers' part alone takes": {loopback(1e10, 1e6), plan.Local},
		"the network alone takes":       {wire, plan.Local},
		"ms on the workers":             {loopback(1e8, 1e12), plan.Resident},
	} {
		r := autoRun(t, c.machines, "", placementRule{Layer: "fc2", Placement: plan.Local})
		if l := r.layers[0]; l.Placement != c.placement || !strings.Contains(l.Reason, want) || !strings.Contains(l.Reason, " here") {
			t.Errorf("%s is %s because %q, want %s because %q", l.Layer, l.Placement, l.Reason, c.placement, want)
		}
		if l := r.layers[1]; l.Placement != plan.Local || l.Reason != asAsked {
			t.Errorf("%s is %s because %q", l.Layer, l.Placement, l.Reason)
		}
		if p := r.prediction; !(p.StepMS > 0 && p.StepMS <= p.LocalMS) || (p.Bytes > 0) != (c.placement != plan.Local) {
			t.Errorf("predicted %v, %v bytes", p, p.Bytes)
		}
	}
}

// Where weights cannot be on the workers alone the layers are on another placement, if
// that pays: batches, or both factors with a code of their own. Any 4 of 6 suffice in
// every case.
func TestAutoLeavesOutWhatCannotRun(t *testing.T) {
	fast := loopback(1e8, 1e12)
	for flags, why := range map[string]string{
		"--optimizer=adam": "Adam is not a linear map", "--ema=0.9": "not averaged", "--weight-decay=0.1 --no-decay=*": "share one update",
	} {
		l := autoRun(t, fast, flags).layers[0]
		if l.Placement == plan.Local || l.Placement == plan.Resident || !strings.Contains(l.Reason, "; not resident: ") || !strings.Contains(l.Reason, why) {
			t.Errorf("%s: %s is %s because %q", flags, l.Layer, l.Placement, l.Reason)
		}
		if l.K > 4 || l.Gradient > 4 || l.N != 6 {
			t.Errorf("%s: %+v, want any 4 of 6", flags, l)
		}
	}
	r := autoRun(t, fast, "--batch=3 --optimizer=adam --code=rotation")
	if l := r.layers[0]; l.Placement != plan.Shipped || l.Code != "rotation" || !strings.Contains(l.Reason, "blocks, any 4 of 6 workers") {
		t.Errorf("with a code of two factors: %+v", l)
	}
}

// A rule of placement auto has a code and a number of answers of its own.
func TestAutoByRule(t *testing.T) {
	r := autoRun(t, loopback(1e8, 1e12), "--placement=local", placementRule{Layer: "fc1", Placement: autoPlacement, Code: "systematic-trigonometric", K: 3})
	if l := r.layers[0]; l.Placement != plan.Resident || l.Code != "systematic-trigonometric" || l.K != 3 {
		t.Errorf("%+v", l)
	}
	if l := r.layers[1]; l.Placement != plan.Local || l.Reason != asAsked {
		t.Errorf("%+v", l)
	}
	none := parseValid(t, "--placement=resident", lists{})
	if (&run{runFlags: none}).hasAuto() || !(&run{runFlags: r.runFlags, lists: r.lists}).hasAuto() {
		t.Error("the planner is asked by a rule of placement auto, and by nothing else")
	}
}
