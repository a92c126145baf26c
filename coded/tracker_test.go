package coded

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestTrackerWithoutAllocation: one tracker serves all chunks and rounds.
func TestTrackerWithoutAllocation(t *testing.T) {
	for _, c := range []*Code{mustCode(t, "trigonometric", 8, 6), mustCode(t, "replication", 8, 4), mustTwoSided(t)} {
		for _, tracker := range []*Tracker{NewTracker(c), NewRankTracker(c)} {
			saved := NewTracker(c)
			if tracker.counting != saved.counting {
				saved = NewRankTracker(c)
			}
			allocs := testing.AllocsPerRun(10, func() {
				tracker.Reset()
				for task := range c.N() {
					tracker.Add(task)
				}
				saved.CopyFrom(tracker)
			})
			if allocs != 0 || !tracker.Ready() || !saved.Ready() {
				t.Errorf("%v: %v allocations, ready %t, copy ready %t", c, allocs, tracker.Ready(), saved.Ready())
			}
		}
	}
}

// TestTrackerAgainstCounting is the law that lets an MDS code be counted.
func TestTrackerAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		k := rapid.IntRange(max(1, n-5), n).Draw(t, "k")
		c, err := New(Spec{Name: "trigonometric", N: n, K: k})
		if err != nil {
			t.Fatal(err)
		}
		count, rank := NewTracker(c), NewRankTracker(c)
		for i, task := range rapid.SliceOfN(rapid.IntRange(-1, n), 0, 2*n).Draw(t, "tasks") {
			if a, b := count.Add(task), rank.Add(task); a != b {
				t.Fatalf("step %d, task %d: innovative by count %t, by rank %t", i, task, a, b)
			}
			if count.Ready() != rank.Ready() || count.Count() != rank.Count() {
				t.Fatalf("step %d: by count %t with %d, by rank %t with %d", i, count.Ready(), count.Count(), rank.Ready(), rank.Count())
			}
		}
	})
}

// TestTrackerIgnoresStrangers: what a worker claims to have done changes nothing
// if there is no such task.
func TestTrackerIgnoresStrangers(t *testing.T) {
	for _, c := range []*Code{mustCode(t, "trigonometric", 3, 2), mustCode(t, "replication", 4, 2)} {
		tracker := NewTracker(c)
		for _, task := range []int{-1, c.N(), 1 << 40} {
			if tracker.Add(task) || tracker.Has(task) || tracker.Count() != 0 {
				t.Errorf("%v: task %d counts", c, task)
			}
		}
	}
}

// TestCopyFrom asks "what if" without touching the original.
func TestCopyFrom(t *testing.T) {
	d := fromGenerator([][]float64{{1, 1, 0}, {0, 1, 1}, {1, 2, 1}, {1, 0, 1}})
	d.Name, d.Threshold = "sums", 4
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	tracker, other := NewTracker(c), NewTracker(c)
	tracker.Add(0)
	tracker.Add(1)
	other.CopyFrom(tracker)
	if !other.Has(1) || other.Count() != 2 || other.Add(2) || !other.Add(3) || !other.Ready() {
		t.Error("the copy does not go on where the original was")
	}
	if tracker.Ready() || tracker.Count() != 2 || tracker.Has(2) || tracker.Add(2) || !tracker.Add(3) {
		t.Error("the copy changed the original")
	}
	tracker.Reset()
	tracker.CopyFrom(NewTracker(mustCode(t, "replication", 6, 3)))
	other.CopyFrom(tracker)
	if tracker.Count() != 0 || other.Count() != 0 || other.Ready() || other.Has(0) {
		t.Error("the copy of an empty tracker is not empty")
	}
}

// TestBasisStaysOrthonormal: also when the rows are nearly dependent, as those of
// a Vandermonde matrix are, which one pass of Gram-Schmidt does not achieve.
func TestBasisStaysOrthonormal(t *testing.T) {
	g := make([][]float64, 12)
	for i := range g {
		for j := range 12 {
			g[i] = append(g[i], math.Pow(0.4+float64(i)/20, float64(j)))
		}
	}
	d := fromGenerator(g)
	d.Name, d.Threshold = "Vandermonde", 12
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	tracker := NewTracker(c)
	for task := range c.N() {
		tracker.Add(task)
	}
	if tracker.rank < 5 {
		t.Fatalf("rank %d", tracker.rank)
	}
	for i := range tracker.rank {
		for j := range i {
			if p := dot(tracker.basis[i*12:(i+1)*12], tracker.basis[j*12:(j+1)*12]); math.Abs(p) > 1e-15 {
				t.Errorf("rows %d and %d of the basis have product %g", i, j, p)
			}
		}
	}
}

func BenchmarkTracker(b *testing.B) {
	for _, size := range [][2]int{{8, 6}, {31, 28}} {
		c := mustCode(b, "trigonometric", size[0], size[1])
		for name, tracker := range map[string]*Tracker{"count": NewTracker(c), "rank": NewRankTracker(c)} {
			b.Run(fmt.Sprintf("%s/n=%d/k=%d", name, size[0], size[1]), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					tracker.Reset()
					for task := 0; !tracker.Ready(); task++ {
						tracker.Add(task)
					}
				}
			})
		}
	}
}
