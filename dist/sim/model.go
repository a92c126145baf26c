package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Model says who is slow when. It is a value without state: the same seed and
// round give the same paces, in whatever order the rounds are asked for, so that
// strategies can be compared on the same luck.
type Model interface {
	// Apply slows the workers of a round down further: paces[w] is the pace that
	// worker w has otherwise. Changes of a pace are replaced, never written to.
	Apply(paces []Pace, seed uint64, round int)
	// String writes the model as ParseModel reads it, if it can be written so.
	String() string
}

// None slows nobody down: "none".
type None struct{}

// Apply implements Model.
func (None) Apply([]Pace, uint64, int) {}

func (None) String() string { return "none" }

// Slow draws a factor for each worker and round by which its work takes longer:
// T = l X for a load l, "slow:*@shifted-exp=1,1". Workers are numbered from 0,
// and from 1 in text; nil are all.
type Slow struct {
	Workers []int
	By      Distribution
}

// Apply implements Model.
func (m Slow) Apply(paces []Pace, seed uint64, round int) {
	each(m.Workers, len(paces), func(w int) { paces[w].slow(m.By.Quantile(uniform(seed, round, w))) })
}

func (m Slow) String() string { return "slow:" + who(m.Workers) + "@" + m.By.String() }

// Shared draws one factor a round for a group of workers, for what slows all of
// them down at once: a rack, a busy host, "shared:1+2+3@pareto=1,2".
type Shared struct {
	Workers []int
	By      Distribution
}

// Apply implements Model.
func (m Shared) Apply(paces []Pace, seed uint64, round int) {
	factor := m.By.Quantile(uniform(seed, round, 0))
	each(m.Workers, len(paces), func(w int) { paces[w].slow(factor) })
}

func (m Shared) String() string { return "shared:" + who(m.Workers) + "@" + m.By.String() }

// Delay draws for each worker and round a time that passes before it begins:
// T = l + X, the additive model, "delay:*@exp=0.5". Delays of several
// models run at the same time.
type Delay struct {
	Workers []int
	By      Distribution
}

// Apply implements Model.
func (m Delay) Apply(paces []Pace, seed uint64, round int) {
	each(m.Workers, len(paces), func(w int) {
		paces[w] = paces[w].times(delayed(m.By.Quantile(uniform(seed, round, w)), 1))
	})
}

func (m Delay) String() string { return "delay:" + who(m.Workers) + "@" + m.By.String() }

// Some slows down Count workers, drawn anew each round: "some:2@x=2".
type Some struct {
	Count int
	By    Distribution
}

// Apply implements Model.
func (m Some) Apply(paces []Pace, seed uint64, round int) {
	// Selection sampling (Knuth, TAOCP 2, algorithm 3.4.2S).
	left := min(m.Count, len(paces))
	for w := range paces {
		if left > 0 && uniform(seed, round, w)*float64(len(paces)-w) < float64(left) {
			left--
			paces[w].slow(m.By.Quantile(uniform(stream(seed, 0), round, w)))
		}
	}
}

func (m Some) String() string { return fmt.Sprintf("some:%d@%v", m.Count, m.By) }

// Bursts makes a worker X times slower in some rounds, which come in runs: a
// two-state chain, entered with probability Enter a round and left with Leave
// (E. Gilbert 1960; E. Elliott 1963), "burst:*@enter=0.05,leave=0.2,x=5".
type Bursts struct {
	Workers         []int
	Enter, Leave, X float64
}

// Apply implements Model.
func (m Bursts) Apply(paces []Pace, seed uint64, round int) {
	each(m.Workers, len(paces), func(w int) {
		if chain(seed, round, w, m.Enter, m.Leave) {
			paces[w].slow(m.X)
		}
	})
}

func (m Bursts) String() string {
	return "burst:" + who(m.Workers) + "@" + fields("enter", m.Enter, "leave", m.Leave, "x", m.X)
}

// Preempt takes workers away: each is taken with probability Leave a round, at
// some time within a shard's time, and what it was at work on is lost; it is back
// at the start of a later round, with probability Back each:
// "preempt:*@leave=0.01,back=0.2".
type Preempt struct {
	Workers     []int
	Leave, Back float64
}

// Apply implements Model.
func (m Preempt) Apply(paces []Pace, seed uint64, round int) {
	each(m.Workers, len(paces), func(w int) {
		switch {
		case !chain(seed, round, w, m.Leave, m.Back):
		case chain(seed, round-1, w, m.Leave, m.Back):
			paces[w] = gone
		default:
			paces[w].end(uniform(stream(seed, 0), round, w))
		}
	})
}

func (m Preempt) String() string {
	return "preempt:" + who(m.Workers) + "@" + fields("leave", m.Leave, "back", m.Back)
}

// Fail makes workers crash for good, each with probability P a round, at some
// time within a shard's time: "fail:*@p=0.001".
type Fail struct {
	Workers []int
	P       float64
}

// Apply implements Model.
func (m Fail) Apply(paces []Pace, seed uint64, round int) {
	each(m.Workers, len(paces), func(w int) {
		last := 1 + math.Floor(math.Log(uniform(seed, 0, w))/math.Log1p(-m.P))
		switch {
		case float64(round) > last:
			paces[w] = gone
		case float64(round) == last:
			paces[w].end(uniform(stream(seed, 0), round, w))
		}
	})
}

func (m Fail) String() string { return "fail:" + who(m.Workers) + "@" + fields("p", m.P) }

// Kill ends workers before a round, the first of which is 1: "kill:2@step=100".
type Kill struct {
	Workers []int
	Round   int
}

// Apply implements Model.
func (m Kill) Apply(paces []Pace, _ uint64, round int) {
	if round >= m.Round {
		each(m.Workers, len(paces), func(w int) { paces[w] = gone })
	}
}

func (m Kill) String() string { return "kill:" + who(m.Workers) + "@step=" + strconv.Itoa(m.Round) }

// Together applies several models, with independent draws: factors multiply.
type Together []Model

// Apply implements Model.
func (m Together) Apply(paces []Pace, seed uint64, round int) {
	for i, each := range m {
		each.Apply(paces, stream(seed, uint64(i)), round)
	}
}

func (m Together) String() string {
	s := make([]string, len(m))
	for i, each := range m {
		s[i] = each.String()
	}
	return strings.Join(s, ";")
}

// each calls f for the workers of a list that there are, for all if it is nil.
func each(workers []int, n int, f func(w int)) {
	if workers == nil {
		for w := range n {
			f(w)
		}
	}
	for _, w := range workers {
		if w >= 0 && w < n {
			f(w)
		}
	}
}

// who writes workers as they are numbered outside, from 1.
func who(workers []int) string {
	if workers == nil {
		return "*"
	}
	s := make([]string, len(workers))
	for i, w := range workers {
		s[i] = strconv.Itoa(w + 1)
	}
	return strings.Join(s, "+")
}

// fields writes name=value,name=value.
func fields(pairs ...any) string {
	var s []string
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, fmt.Sprintf("%v=%v", pairs[i], pairs[i+1]))
	}
	return strings.Join(s, ",")
}
