package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func mustCode(t testing.TB, name string, n, k int) *Code {
	t.Helper()
	c, err := New(Spec{Name: name, N: n, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cluster holds the float32 states of the slots of a one-sided code.
type cluster struct {
	code  *Code
	slots []Tensor
}

func newCluster(t testing.TB, c *Code, blocks []Tensor) *cluster {
	t.Helper()
	s := &cluster{c, make([]Tensor, c.N())}
	for i := range s.slots {
		s.slots[i] = NewTensor(blocks[0].Shape...)
		if err := Encode(s.slots[i], c.Row(i), blocks); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func randomBlocks(rng *rand.Rand, count, length int) []Tensor {
	blocks := make([]Tensor, count)
	for j := range blocks {
		blocks[j] = NewTensor(length)
		for i := range blocks[j].Data {
			blocks[j].Data[i] = float32(rng.NormFloat64())
		}
	}
	return blocks
}

// replace makes a slot the combination of others.
func (s *cluster) replace(t testing.TB, lost int, donors []int, weights []float64) {
	t.Helper()
	var states []Tensor
	for _, d := range donors {
		states = append(states, s.slots[d])
	}
	if err := Encode(s.slots[lost], weights, states); err != nil {
		t.Fatal(err)
	}
}

// distance is the largest difference between two clusters.
func (s *cluster) distance(o *cluster) float64 {
	var d float64
	for i := range s.slots {
		for j, v := range s.slots[i].Data {
			d = max(d, math.Abs(float64(v-o.slots[i].Data[j])))
		}
	}
	return d
}

// TestRepairsDoNotCompound loses random slots and repairs them 200 times in a
// row, and measures how far the shards have drifted from their first values,
// which are of size 1.
func TestRepairsDoNotCompound(t *testing.T) {
	for _, size := range [][2]int{{6, 4}, {8, 6}, {18, 15}} {
		c := mustCode(t, "trigonometric", size[0], size[1])
		rng := rand.New(rand.NewPCG(5, 6))
		blocks := randomBlocks(rng, c.K(), 100)
		s, first := newCluster(t, c, blocks), newCluster(t, c, blocks)
		for range 200 {
			perm := rng.Perm(c.N())
			donors, weights, amplification, err := c.Repair(perm[0], perm[1:])
			if err != nil {
				t.Fatal(err)
			}
			if amplification > MaxRepairAmplification {
				t.Errorf("%v: slot %d from all others: amplification %.3g", c, perm[0], amplification)
			}
			s.replace(t, perm[0], donors, weights)
		}
		if d := s.distance(first); !(d < 1e-5) {
			t.Errorf("%v: the slots drifted by %.3g in 200 repairs", c, d)
		}
	}
}

// TestRandomDonorsCompound shows why Repair uses all the fresh slots: with k
// random ones the rounding grows without bound.
func TestRandomDonorsCompound(t *testing.T) {
	c := mustCode(t, "trigonometric", 18, 15)
	rng := rand.New(rand.NewPCG(5, 6))
	blocks := randomBlocks(rng, c.K(), 100)
	s, first := newCluster(t, c, blocks), newCluster(t, c, blocks)
	for range 200 {
		perm := rng.Perm(c.N())
		donors, weights, _, err := c.Repair(perm[0], perm[1:1+c.K()])
		if err != nil {
			t.Fatal(err)
		}
		s.replace(t, perm[0], donors, weights)
	}
	if d := s.distance(first); d < 1 {
		t.Errorf("the slots drifted by %.3g only", d)
	}
}

// TestRepairHasTheLeastNorm: no choice of k donors amplifies less.
func TestRepairHasTheLeastNorm(t *testing.T) {
	c := mustCode(t, "trigonometric", 8, 5)
	fresh := []int{0, 1, 3, 4, 6, 7}
	_, _, least, err := c.Repair(2, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fresh {
		five := slices.Delete(slices.Clone(fresh), i, i+1)
		_, _, a, err := c.Repair(2, five)
		if err != nil {
			t.Fatal(err)
		}
		if a < least {
			t.Errorf("donors %v amplify by %.4g, all of %v by %.4g", five, a, fresh, least)
		}
	}
}

// TestRepairByCopies: a replicated block comes from its copies alone, a mean of
// two having less error than one.
func TestRepairByCopies(t *testing.T) {
	c := mustCode(t, "replication", 6, 2)
	donors, weights, amplification, err := c.Repair(4, []int{5, 0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(donors, []int{0, 2}) || !near(weights[0], 0.5) || !near(weights[1], 0.5) || !near(amplification, math.Sqrt(0.5)) {
		t.Errorf("donors %v, weights %v, amplification %v; want the mean of 0 and 2", donors, weights, amplification)
	}
}

func near(x, want float64) bool { return math.Abs(x-want) < 1e-14*max(1, math.Abs(want)) }

func TestRepairErrors(t *testing.T) {
	c := mustCode(t, "trigonometric", 6, 4)
	_, _, _, err := c.Repair(0, []int{1, 2, 3})
	var few *InsufficientError
	if !errors.As(err, &few) || !errors.Is(err, ErrTooFewResults) || len(few.Have) != 3 || few.Threshold != 4 {
		t.Errorf("three fresh slots: %v", err)
	}
	for what, set := range map[string][]int{
		"lost among the fresh": {0, 1, 2, 3}, "listed twice": {1, 1, 2, 3, 4}, "no such slot": {1, 2, 3, 6},
	} {
		if _, _, _, err := c.Repair(0, set); err == nil || errors.Is(err, ErrTooFewResults) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if _, _, _, err := mustTwoSided(t).Repair(0, []int{1}); err == nil {
		t.Error("a code of two operands: no error")
	}
}

// mustTwoSided is a small code that codes both operands.
func mustTwoSided(t testing.TB) *Code {
	t.Helper()
	c, err := NewCode(Definition{
		Name: "two-sided", ABlocks: 1, BBlocks: 2, Threshold: 2, MDS: true,
		Tasks: []Task{
			{A: [][]float64{{1}}, B: [][]float64{{1, 0}}},
			{A: [][]float64{{1}}, B: [][]float64{{0, 1}}},
			{A: [][]float64{{1}}, B: [][]float64{{1, 1}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
