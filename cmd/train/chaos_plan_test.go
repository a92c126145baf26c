package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// follow plays a plan and checks that every action fits what has happened before.
func follow(t *testing.T, seed uint64, faults []string, workers, most, elder, actions int) (all []action) {
	t.Helper()
	p := newChaosPlan(seed, faults, workers, most, elder)
	ill := map[int]string{}
	for len(all) < actions {
		a, ok := p.next()
		if !ok {
			t.Fatalf("seed %d: the plan ends after %d actions", seed, len(all))
		}
		all = append(all, a)
		fault := ill[a.worker]
		switch a.what {
		case "join":
			if fault != "kill" && fault != "leave" {
				t.Errorf("seed %d: join of worker %d, whose fault is %q", seed, a.worker, fault)
			}
		case "thaw":
			if fault != "freeze" {
				t.Errorf("seed %d: thaw of worker %d, whose fault is %q", seed, a.worker, fault)
			}
		case "mend":
			if a.order == "" || !slices.Contains([]string{"partition", "slow", "drop", "corrupt"}, fault) {
				t.Errorf("seed %d: mend %q of worker %d, whose fault is %q", seed, a.order, a.worker, fault)
			}
		default:
			if fault != "" || !slices.Contains(faults, a.what) || !a.harms() {
				t.Errorf("seed %d: %s of worker %d, whose fault is %q", seed, a.what, a.worker, fault)
			}
			if a.worker == elder && slices.Contains([]string{"kill", "restart", "leave"}, a.what) {
				t.Errorf("seed %d: %s of the elder", seed, a.what)
			}
			if a.what != "restart" {
				ill[a.worker] = a.what
			}
		}
		if !a.harms() {
			delete(ill, a.worker)
		}
		for w := 1; w <= workers; w++ {
			if p.ill(w) != (ill[w] != "") {
				t.Errorf("seed %d: worker %d is ill: %v, want fault %q", seed, w, p.ill(w), ill[w])
			}
		}
		if len(ill) > most || a.worker < 1 || a.worker > workers || a.after < 1 || a.pause < 0 {
			t.Errorf("seed %d: %d workers have faults, at most %d: %+v", seed, len(ill), most, a)
		}
	}
	p.healing = true
	for a, ok := p.next(); ok; a, ok = p.next() {
		if ill[a.worker] == "" || a.harms() {
			t.Errorf("seed %d: %s of worker %d while all are healed", seed, a.what, a.worker)
		}
		delete(ill, a.worker)
	}
	if len(ill) > 0 {
		t.Errorf("seed %d: %v are not healed", seed, ill)
	}
	return all
}

func TestChaosPlan(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(50) {
		all := follow(t, seed, chaosFaultNames(), 9, 3, 8, 100)
		for _, a := range all {
			seen[a.what] = true
		}
		again := follow(t, seed, chaosFaultNames(), 9, 3, 8, 100)
		other := follow(t, seed+100, chaosFaultNames(), 9, 3, 8, 100)
		if !cmp.Equal(all, again, cmp.AllowUnexported(action{})) || cmp.Equal(all, other, cmp.AllowUnexported(action{})) {
			t.Errorf("seed %d: not the same faults again, or the same with another seed", seed)
		}
	}
	for _, what := range append(chaosFaultNames(), "join", "thaw", "mend") {
		if !seen[what] {
			t.Errorf("%s never happens", what)
		}
	}
}

// Whatever the settings allow, there is something to do.
func TestChaosPlanOfFew(t *testing.T) {
	for _, name := range chaosFaultNames() {
		follow(t, 1, []string{name}, 2, 1, 2, 30)
	}
}
