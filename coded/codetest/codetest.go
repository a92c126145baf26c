// Package codetest holds the laws that every code must satisfy, whatever its
// coefficients, as testing/fstest does for file systems. A new code's test is
//
//	codetest.Test(t, code, rand.New(rand.NewPCG(1, 2)))
//
// for some sizes, at least one of them with no more than 8 tasks: then every set
// of tasks is tried. Of larger codes the sets are drawn with the given source.
//
// # The laws
//
//   - threshold: any Threshold tasks decode, some Threshold-1 do not, and none
//     do if the code claims to be MDS. Decided in exact arithmetic.
//   - readiness: coded.Tracker, coded.ExactTracker, coded.Decoder and the rank by
//     singular values agree on every set, in whatever order it is added.
//   - decoding: the weights of any set that decodes give the direct result.
//   - exact decoding: over every prime field where the code has a form, without
//     any error.
//   - residual: an early stop's residual is the error of its weights, and the
//     weights are those of the least error, which no further result raises.
//   - least norm: more results never make the weights larger.
//   - cache: the same set gives the same weights.
//   - prefix: as many first results as claimed decode, however they are spread
//     over the tasks, and fewer do not always.
//   - lies: with results to spare a result that is wrong is noticed, and the one that
//     Locate names is the wrong one; of an MDS code with two to spare it is named.
//   - linearity: coded blocks of a sum of operands are the sum of coded blocks.
//   - repair: any slot is the stated combination of any set that decodes.
//   - blocks: float32 tensors of any size go through encoding and decoding.
//
// The last two concern one-sided codes. Laws of a claim that a code does not make
// hold by default; of an approximate code, those about exact decoding.
package codetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
)

type law struct {
	name  string
	check func(*suite) error
}

var laws = []law{
	{"threshold", (*suite).threshold},
	{"readiness", (*suite).readiness},
	{"decoding", (*suite).decoding},
	{"exact decoding", (*suite).exactDecoding},
	{"residual", (*suite).residual},
	{"least norm", (*suite).leastNorm},
	{"cache", (*suite).cache},
	{"prefix", (*suite).prefix},
	{"lies", (*suite).lies},
	{"linearity", (*suite).linearity},
	{"repair", (*suite).repair},
	{"blocks", (*suite).blocks},
}

// Test checks every law in a subtest of its own.
func Test(t *testing.T, c *coded.Code, rng *rand.Rand) {
	t.Helper()
	s := newSuite(c, rng)
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			if err := l.check(s); err != nil {
				t.Errorf("%v: %v", c, err)
			}
		})
	}
}

// Catalogue tests the families of these names, all that are registered if none is
// given, with each of their examples (in short mode with the first one).
func Catalogue(t *testing.T, names ...string) {
	t.Helper()
	if len(names) == 0 {
		names = coded.Names()
	}
	for _, name := range names {
		i := slices.Index(coded.Names(), name)
		if i < 0 {
			t.Errorf("no code %q is registered", name)
			continue
		}
		t.Run(name, func(t *testing.T) { family(t, coded.Families()[i]) })
	}
}

// family tests a family with each of its examples, one of which must be small
// enough for every set of its tasks to be tried.
func family(t *testing.T, f coded.Family) {
	if !slices.ContainsFunc(f.Examples, func(s coded.Spec) bool { return s.N <= exhaustiveTasks }) {
		t.Errorf("%s has no example of at most %d tasks", f.Name, exhaustiveTasks)
	}
	examples := f.Examples
	if testing.Short() { // the first one, of which every set is tried
		examples = examples[:1]
	}
	for i, spec := range examples {
		t.Run(spec.String(), func(t *testing.T) {
			c, err := coded.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			Test(t, c, rand.New(rand.NewPCG(uint64(spec.N), uint64(i))))
		})
	}
}

// Check checks every law and returns what was violated, each error beginning
// with the law's name.
func Check(c *coded.Code, rng *rand.Rand) error {
	var errs []error
	s := newSuite(c, rng)
	for _, l := range laws {
		if err := l.check(s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.name, err))
		}
	}
	return errors.Join(errs...)
}

// suite is a code under test and the sets of tasks that are tried.
type suite struct {
	code *coded.Code
	rng  *rand.Rand
	sets [][]int // ascending
}

const (
	exhaustiveTasks = 8  // codes with at most as many tasks: every set
	drawnSets       = 40 // sets tried of larger codes
	orders          = 2  // orders in which the tasks of a set are added
)

func newSuite(c *coded.Code, rng *rand.Rand) *suite {
	s := &suite{code: c, rng: rng}
	if n := c.N(); n <= exhaustiveTasks {
		for bits := range 1 << n {
			s.sets = append(s.sets, members(bits, n))
		}
		return s
	}
	for range drawnSets {
		s.sets = append(s.sets, s.draw(rng.IntN(c.N()+1)))
	}
	// Those around the threshold matter most.
	for range drawnSets {
		s.sets = append(s.sets, s.draw(s.enough()), s.draw(s.enough()-1))
	}
	return s
}

// enough is a number of tasks that always decode: all, if there is no threshold.
func (s *suite) enough() int {
	if k := s.code.Threshold(); k > 0 {
		return k
	}
	return s.code.N()
}

func members(bits, n int) []int {
	set := []int{}
	for t := range n {
		if bits&(1<<t) != 0 {
			set = append(set, t)
		}
	}
	return set
}

// draw returns a random set of so many tasks.
func (s *suite) draw(size int) []int {
	chosen := make([]bool, s.code.N())
	for _, t := range s.rng.Perm(s.code.N())[:size] {
		chosen[t] = true
	}
	set := []int{}
	for t, in := range chosen {
		if in {
			set = append(set, t)
		}
	}
	return set
}

// shuffled returns a set in a random order.
func (s *suite) shuffled(set []int) []int {
	out := make([]int, len(set))
	for i, j := range s.rng.Perm(len(set)) {
		out[i] = set[j]
	}
	return out
}
