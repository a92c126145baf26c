package coded

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// hierarchical cuts the job into Groups layers that every worker computes one
// after the other, each with a code of its own: layer l has k_l blocks, of which
// any k_l of the n workers give all. Nearly everyone finishes the first layers,
// so they need many answers and are coded thinly; few finish the last ones, which
// need few. It is ready when every layer is: work that was not finished counts.
//
// The family spreads the k_l evenly from K+d down to K-d, d = min(n-K, K-1); with
// other numbers it is NewHierarchical. Each layer is a trigonometric code. Of
// whole tasks any max k_l decode; compute, storage and download of a task are
// Groups/sum k_l.
var hierarchical = Family{
	Name:  "hierarchical",
	Doc:   "layers that all workers compute in turn, the first coded thinly and the last heavily: unfinished work counts",
	Paper: "N. Ferdinand, S. C. Draper, Hierarchical coded computation, ISIT 2018; S. Kiani, N. Ferdinand, S. C. Draper, Hierarchical coded matrix multiplication, 2019",
	Kind:  Linear,
	Uses:  UsesK | UsesGroups,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		if s.Groups < 2 || s.Groups > MaxTasks {
			return Definition{}, fmt.Errorf("groups, the layers, must be 2 to %d", MaxTasks)
		}
		needed := layerThresholds(s)
		if err := checkLayers(s.N, needed); err != nil {
			return Definition{}, err
		}
		return hierarchicalDefinition(s.N, needed), nil
	},
	Examples: []Spec{
		{Name: "hierarchical", N: 4, K: 3, Groups: 2}, {Name: "hierarchical", N: 6, K: 4, Groups: 3}, {Name: "hierarchical", N: 12, K: 8, Groups: 4},
	},
}

// layerThresholds falls evenly from K+d to K-d.
func layerThresholds(s Spec) []int {
	d := min(s.N-s.K, s.K-1)
	needed := make([]int, s.Groups)
	for l := range needed {
		needed[l] = s.K + d - (2*d*l+(s.Groups-1)/2)/(s.Groups-1)
	}
	return needed
}

// NewHierarchical returns the hierarchical code of n tasks whose layer l, in the
// order of computing, needs needed[l] answers.
func NewHierarchical(n int, needed []int) (*Code, error) {
	if n < 1 || n > MaxTasks {
		return nil, fmt.Errorf("coded: hierarchical: %d tasks, want 1 to %d", n, MaxTasks)
	}
	if len(needed) == 0 {
		return nil, errors.New("coded: hierarchical: no layers")
	}
	for l, k := range needed {
		if k < 1 || k > n {
			return nil, fmt.Errorf("coded: hierarchical: layer %d needs %d answers of %d", l, k, n)
		}
	}
	if err := checkLayers(n, needed); err != nil {
		return nil, fmt.Errorf("coded: hierarchical: %w", err)
	}
	d := hierarchicalDefinition(n, needed)
	d.Name, d.Doc, d.Paper, d.Kind = hierarchical.Name, hierarchical.Doc, hierarchical.Paper, hierarchical.Kind
	return NewCode(d)
}

// checkLayers bounds the coefficients of the layers' results.
func checkLayers(n int, needed []int) error {
	blocks := 0
	for _, k := range needed {
		blocks += k
	}
	return checkRows(n*len(needed), blocks)
}

func hierarchicalDefinition(n int, needed []int) Definition {
	d := Definition{BBlocks: 1, MDS: true}
	for _, k := range needed {
		d.ABlocks += k
		d.Threshold = max(d.Threshold, k)
	}
	d.Tasks = stackedTasks(layerRows(n, needed, d.ABlocks, trigonometricFrame), 1)
	d.Modular = func(p field.Prime) ([]ModularTask, error) {
		c, err := newModularCircle(p, n)
		if err != nil {
			return nil, err
		}
		rows := func(n, k int) [][]uint64 { return trigonometricRows(c, n, k) }
		return stackedTasks(layerRows(n, needed, d.ABlocks, rows), 1), nil
	}
	return d
}

// layerRows gives, for each task, a row for each layer: that of the layer's code,
// at the place of the layer's blocks.
func layerRows[E any](n int, needed []int, blocks int, generator func(n, k int) [][]E) [][][]E {
	tasks := make([][][]E, n)
	first := 0
	for _, k := range needed {
		for w, g := range generator(n, k) {
			row := make([]E, blocks)
			copy(row[first:], g)
			tasks[w] = append(tasks[w], row)
		}
		first += k
	}
	return tasks
}
