package coded

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
)

// heterogeneousGradients is for workers that differ in speed, as NewHeterogeneous
// does it: the worker w has the speed 1 + w modulo groups, so that there are as
// many classes of speeds as groups says, the fastest that many times as fast as the
// slowest. Load is the mean number of parts of a worker; s+1 = load*n/k.
var heterogeneousGradients = Family{
	Name:  "heterogeneous-gradients",
	Doc:   "parts in proportion to speed (1 to groups, in turn), any s stragglers: all workers finish together; NewHeterogeneous takes speeds",
	Paper: heterogeneousPaper,
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad | UsesGroups,
	Define: func(s Spec) (Definition, error) {
		copies, err := s.copies()
		if err != nil {
			return Definition{}, err
		}
		speeds := make([]float64, s.N)
		for w := range speeds {
			speeds[w] = float64(1 + w%s.Groups)
		}
		return defineHeterogeneous(speeds, s.K, copies)
	},
	Examples: []Spec{
		{Name: "heterogeneous-gradients", N: 5, K: 10, Load: 4, Groups: 3}, {Name: "heterogeneous-gradients", N: 8, K: 24, Load: 9, Groups: 2},
		{Name: "heterogeneous-gradients", N: 6, K: 7, Load: 7, Groups: 4}, {Name: "heterogeneous-gradients", N: 20, K: 60, Load: 9, Groups: 4},
	},
}

const heterogeneousPaper = "H. Wang, S. Guo, B. Tang, R. Li, C. Li, Heterogeneity-aware gradient coding for straggler tolerance, ICDCS 2019"

// NewHeterogeneous returns a gradient code over so many parts for workers of the
// given speeds, in parts per unit of time, that bears any s stragglers. Worker w
// knows about
//
//	parts (s+1) speeds[w] / (sum of speeds)
//
// parts, at least one and at most all of them, so that all workers would finish at
// the same time; the parts are given out in turn, each worker beginning where the
// one before it ended, s+1 times around. The largest number of parts over speed is
// the least that whole parts allow. The coefficients are those of cyclic-reed-solomon,
// which asks nothing of who the s+1 holders of a part are (H. Wang, S. Guo, B. Tang,
// R. Li, C. Li, ICDCS 2019, whose algorithm 1 takes random coefficients in the place
// of polynomials):
//
//	threshold  n - s
//
// Compute and storage of a task are its share of the parts (Code.TaskLoads), the
// download is one gradient.
//
// Numerics: the holders of a part lie 1/(s+1) of all shares apart, and the points
// follow the shares, so that the coefficients of a part are of one size. Over sets of
// n-s answers the largest weight is 8.9 for ten workers of speeds 1 to 10 and s = 2,
// 13 for s = 3; with 17 workers of speed 1 and 3 of speed 10 in a row, 6.1 and 10
// (equally spaced Chebyshev points had 7e2 and 7e3).
//
// The error is a *SpecError.
func NewHeterogeneous(parts int, speeds []float64, s int) (*Code, error) {
	f := heterogeneousGradients
	f.Uses = UsesK
	f.Define = func(spec Spec) (Definition, error) {
		if s < 0 || s >= min(spec.N, maxCopies) {
			return Definition{}, fmt.Errorf("%d stragglers, want 0 to %d", s, min(spec.N, maxCopies)-1)
		}
		return defineHeterogeneous(speeds, spec.K, s+1)
	}
	return f.new(Spec{Name: f.Name, N: len(speeds), K: parts})
}

func defineHeterogeneous(speeds []float64, parts, copies int) (Definition, error) {
	n := len(speeds)
	for w, v := range speeds {
		if !(v > 0) || math.IsInf(v, 1) {
			return Definition{}, fmt.Errorf("worker %d has the speed %v, want a positive number", w, v)
		}
	}
	if err := (Spec{N: n, K: parts}).boundedParts(1); err != nil {
		return Definition{}, err
	}
	if parts*copies < n {
		return Definition{}, errors.New("there must be a part for each worker: k*(s+1) must be at least n")
	}
	shares := proportionalShares(speeds, parts, copies)
	d, err := annihilating(cyclicShares(shares, parts), sharePoints(shares), parts, 1)
	if err != nil {
		return Definition{}, err
	}
	// With fewer different parts than n-s, some smaller sets may decode.
	d.MDS = false
	return d, nil
}

// proportionalShares gives the number of parts of each worker, parts*copies in all,
// at least 1 and at most parts of each. Each further part goes to the worker that
// would be the first to be done with it, which makes the last one's end as early as
// can be.
func proportionalShares(speeds []float64, parts, copies int) []int {
	shares := make([]int, len(speeds))
	next := &byEnd{}
	for w, v := range speeds {
		shares[w] = 1
		if parts > 1 {
			next.ends = append(next.ends, workerEnd{w, 2 / v})
		}
	}
	heap.Init(next)
	for range parts*copies - len(speeds) {
		w := next.ends[0].worker
		if shares[w]++; shares[w] == parts {
			heap.Pop(next)
			continue
		}
		next.ends[0].end = float64(shares[w]+1) / speeds[w]
		heap.Fix(next, 0)
	}
	return shares
}

// cyclicShares lists the holders of each part, ascending: every worker knows its
// share of parts from where the one before it ended, modulo their number.
func cyclicShares(shares []int, parts int) [][]int {
	holders := make([][]int, parts)
	at := 0
	for w, share := range shares {
		for range share {
			holders[at%parts] = append(holders[at%parts], w)
			at++
		}
	}
	return holders
}

// sharePoints gives each worker the cosine of an angle that is as far around the
// half circle as the middle of its share is among all shares. The holders of a part
// are then about pi/(s+1) apart, whatever the speeds.
func sharePoints(shares []int) []float64 {
	total := 0
	for _, share := range shares {
		total += share
	}
	points := make([]float64, len(shares))
	before := 0
	for w, share := range shares {
		points[w] = math.Cos(math.Pi * (float64(before) + float64(share)/2) / float64(total))
		before += share
	}
	return points
}

// workerEnd is when a worker would be done with one part more.
type workerEnd struct {
	worker int
	end    float64
}

// byEnd is a heap of workers, the first to be done on top; ties go to the first
// worker.
type byEnd struct{ ends []workerEnd }

func (h *byEnd) Len() int { return len(h.ends) }

func (h *byEnd) Less(i, j int) bool {
	a, b := h.ends[i], h.ends[j]
	return a.end < b.end || a.end == b.end && a.worker < b.worker
}

func (h *byEnd) Swap(i, j int) { h.ends[i], h.ends[j] = h.ends[j], h.ends[i] }

// Push adds an entry; the number of workers only shrinks, but heap.Interface wants it.
func (h *byEnd) Push(x any) { h.ends = append(h.ends, x.(workerEnd)) }

// Pop takes the last entry.
func (h *byEnd) Pop() any {
	last := h.ends[len(h.ends)-1]
	h.ends = slices.Delete(h.ends, len(h.ends)-1, len(h.ends))
	return last
}
