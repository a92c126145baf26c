package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// chaosFaults are the faults of train chaos, in the order in which they are
// told, and what ends each: an order to its worker, or another action.
var chaosFaults = []chaosFault{
	{name: "kill", end: "join"},
	{name: "restart"}, // ends by itself: the worker is repaired
	{name: "leave", end: "join"},
	{name: "freeze", end: "thaw"},
	{name: "partition", end: "cut 0s"},
	{name: "slow", end: "slow x=1"},
	{name: "drop", end: "drop 0"},
	{name: "corrupt", end: "corrupt 0"},
}

type chaosFault struct{ name, end string }

func chaosFaultNames() (names []string) {
	for _, f := range chaosFaults {
		names = append(names, f.name)
	}
	return names
}

// ends tells whether the fault ends the process, at least for a moment.
func (f chaosFault) ends() bool { return f.name == "kill" || f.name == "restart" || f.name == "leave" }

// action is one thing that happens to a worker: a fault, or the end of one.
type action struct {
	what   string // the name of a fault; or "join", "thaw", "mend"
	worker int    // from 1
	order  string // to the worker, if what happens is its own doing
	after  int    // rounds after the action before
	pause  time.Duration
}

// harms tells whether the action takes something away.
func (a action) harms() bool { return a.what != "join" && a.what != "thaw" && a.what != "mend" }

// chaosPlan draws what happens to the workers of a chaos run. The sequence
// depends on nothing but the seed and the settings: what is drawn is not when
// something happens, but after how many rounds at least, and how fast these
// follow each other. The elder is never ended, so that there is a process that
// lives as long as the run.
type chaosPlan struct {
	rng     *rand.Rand
	faults  []chaosFault
	most    int          // workers that have a fault at a time
	elder   int          // from 1
	struck  []chaosFault // by worker, from 0; without a name: none
	healing bool         // no new faults
}

func newChaosPlan(seed uint64, faults []string, workers, most, elder int) *chaosPlan {
	p := &chaosPlan{rng: rand.New(rand.NewPCG(seed, 0x6368616f73)), most: most, elder: elder, struck: make([]chaosFault, workers)}
	for _, f := range chaosFaults {
		if slices.Contains(faults, f.name) {
			p.faults = append(p.faults, f)
		}
	}
	return p
}

// next returns the next action, false if there is none: every worker is well
// and no new faults are wanted.
func (p *chaosPlan) next() (action, bool) {
	var ill, well []int
	for w, f := range p.struck {
		if f.name == "" {
			well = append(well, w+1)
		} else {
			ill = append(ill, w+1)
		}
	}
	switch {
	case p.healing && len(ill) == 0:
		return action{}, false
	case p.healing:
		return p.heal(ill), true
	case len(ill) == 0 || len(ill) < p.most && p.rng.IntN(2) == 0:
		return p.strike(well), true
	}
	return p.heal(ill), true
}

// strike draws a fault for one of the workers.
func (p *chaosPlan) strike(well []int) action {
	w := well[p.rng.IntN(len(well))]
	faults := p.faults
	if w == p.elder {
		faults = slices.DeleteFunc(slices.Clone(faults), chaosFault.ends)
	}
	if len(faults) == 0 { // the elder, and all faults end processes
		return p.strike(slices.DeleteFunc(well, func(o int) bool { return o == w }))
	}
	f := faults[p.rng.IntN(len(faults))]
	if f.end != "" {
		p.struck[w-1] = f
	}
	a := p.at(action{what: f.name, worker: w})
	switch f.name {
	case "partition":
		a.order = fmt.Sprintf("cut %s", time.Hour) // until it ends
	case "slow":
		a.order = "slow x=" + strconv.Itoa(2+p.rng.IntN(50))
	case "drop", "corrupt":
		a.order = f.name + " " + []string{"0.05", "0.3", "1"}[p.rng.IntN(3)]
	}
	return a
}

// heal ends the fault of one of the workers.
func (p *chaosPlan) heal(ill []int) action {
	w := ill[p.rng.IntN(len(ill))]
	f := p.struck[w-1]
	p.struck[w-1] = chaosFault{}
	a := p.at(action{worker: w})
	switch f.end {
	case "join", "thaw":
		a.what = f.end
	default:
		a.what, a.order = "mend", f.end
	}
	return a
}

// at draws when an action happens: mostly soon, and at any speed of the rounds;
// now and then so late that the gossip gives the silent up.
func (p *chaosPlan) at(a action) action {
	a.after = 1 + p.rng.IntN(8)
	a.pause = []time.Duration{0, 0, 10 * time.Millisecond, 40 * time.Millisecond}[p.rng.IntN(4)]
	if p.rng.IntN(25) == 0 {
		a.after, a.pause = 100, 60*time.Millisecond
	}
	return a
}

// ill tells whether a worker has a fault.
func (p *chaosPlan) ill(worker int) bool { return p.struck[worker-1].name != "" }
