package shard

import (
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// Survivors chooses the slots that answer one chunk of a round, in increasing
// order. For a Fetch the product is 0.
type Survivors func(code *coded.Code, r coded.Round, chunk int) []int

// RandomSurvivors lets slots answer in random order until the chunk can be
// decoded. The slots are borrowed until the next call.
func RandomSurvivors(seed uint64) Survivors {
	rng := rand.New(rand.NewPCG(seed, 0))
	trackers := make(map[*coded.Code]*coded.Tracker)
	var order []int
	return func(code *coded.Code, _ coded.Round, _ int) []int {
		t := trackers[code]
		if t == nil {
			t = coded.NewTracker(code)
			trackers[code] = t
		}
		t.Reset()
		order = order[:0]
		for slot := range code.N() {
			order = append(order, slot)
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		n := 0
		for n < len(order) && !t.Ready() {
			t.Add(order[n])
			n++
		}
		slices.Sort(order[:n])
		return order[:n]
	}
}

// EverySet goes through all sets of k slots (of as many as a code of two factors, or
// of gradients, claims to need) that suffice, in lexicographic order and then from
// the start again, one set for each chunk of each code.
func EverySet() Survivors {
	sets := make(map[*coded.Code]*combination)
	return func(code *coded.Code, _ coded.Round, _ int) []int {
		c := sets[code]
		if c == nil {
			k := max(code.K(), code.Threshold())
			if code.Kind() != coded.Linear && code.Threshold() > 0 {
				k = code.Threshold()
			}
			c = &combination{n: code.N(), k: k, tracker: coded.NewTracker(code)}
			sets[code] = c
		}
		c.next()
		return c.slots
	}
}

// combination walks the subsets of k of n slots.
type combination struct {
	n, k    int
	slots   []int
	tracker *coded.Tracker
}

// next moves to the next set that suffices. It ends: every one-sided code decodes
// from some set of k slots, since it decodes from all of them by a full rank of k,
// and the others from any set of as many as they claim to need.
func (c *combination) next() {
	for {
		c.step()
		c.tracker.Reset()
		for _, s := range c.slots {
			c.tracker.Add(s)
		}
		if c.tracker.Ready() {
			return
		}
	}
}

func (c *combination) step() {
	i := len(c.slots) - 1
	for i >= 0 && c.slots[i] == c.n-c.k+i {
		i--
	}
	first := 0
	if i >= 0 {
		first = c.slots[i] + 1
	} else {
		i = 0
	}
	c.slots = c.slots[:i]
	for len(c.slots) < c.k {
		c.slots = append(c.slots, first)
		first++
	}
}
