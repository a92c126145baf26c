package coded

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// leastSingular, times the largest, is the least singular value that counts when
// the space of wrong results is found: elements hold rounding as well.
const leastSingular = 1e-3

// span finds errors of full rank: for each size, the tasks whose columns of H lie
// nearest to the space of that dimension that the checks of some elements span. It is
// the search for directions of arrival by subspaces (MUSIC: R. Schmidt, IEEE Trans.
// Antennas and Propagation 1986). Those tasks are what is looked for if they explain
// the elements and none of them can be exchanged for another: all sets of this size
// that do are bases of the space, and if there are two bases, one element of the first
// can be exchanged for one of the second.
func (s *suspicion) span(elements []int) ([]int, error) {
	if len(s.results) != len(s.tasks) || len(s.checks) < 2 {
		return nil, s.ambiguous() // tasks with several columns
	}
	u, values, err := s.space(elements)
	if err != nil {
		return nil, err
	}
	for size := 1; size < len(s.checks) && size <= len(values) && values[size-1] > leastSingular*values[0]; size++ {
		nearest := s.nearest(u, size)
		set := slices.Sorted(slices.Values(nearest[:size]))
		if ok, err := s.explains(set, elements); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		other, err := s.exchange(set, nearest[size:], elements)
		if err != nil {
			return nil, err
		}
		if other != nil {
			return nil, s.ambiguous(set, other)
		}
		return set, nil
	}
	return nil, s.ambiguous()
}

// space returns the directions of what the checks give for some elements, each
// element scaled to length 1, and their singular values.
func (s *suspicion) space(elements []int) (*mat.Dense, []float64, error) {
	m := mat.NewDense(len(s.checks), len(elements), nil)
	column := make([]float64, len(s.checks))
	for i, e := range elements {
		for j, h := range s.checks {
			column[j] = 0
			for w, v := range h {
				column[j] += v * float64(s.results[w][e])
			}
		}
		if scale := norm(column); scale > 0 {
			for j, v := range column {
				m.Set(j, i, v/scale)
			}
		}
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDThin) {
		return nil, nil, s.ambiguous()
	}
	var u mat.Dense
	svd.UTo(&u)
	return &u, svd.Values(nil), nil
}

// nearest sorts the tasks by the part of their column of H outside of the first
// directions.
func (s *suspicion) nearest(u *mat.Dense, directions int) []int {
	outside := make([]float64, len(s.tasks))
	order := make([]int, len(s.tasks))
	for i := range order {
		order[i] = i
		h := make([]float64, len(s.checks))
		for j, check := range s.checks {
			h[j] = check[i]
		}
		length := norm(h)
		for d := range directions {
			subtractPart(h, mat.Col(nil, d, u))
		}
		if outside[i] = norm(h) / length; math.IsNaN(outside[i]) {
			outside[i] = 1 // no check involves the task
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(outside[a], outside[b]) })
	return order
}

// exchange looks for another set that explains the elements, with one of the others
// instead of one of the set. It tries the nearest others, all of them if that is no
// more than maxLocateSets sets.
func (s *suspicion) exchange(set, others, elements []int) ([]int, error) {
	others = others[:min(len(others), maxLocateSets/len(set))]
	for i := range set {
		for _, other := range others {
			changed := slices.Clone(set)
			changed[i] = other
			if ok, err := s.explains(changed, elements); err != nil {
				return nil, err
			} else if ok {
				return slices.Sorted(slices.Values(changed)), nil
			}
		}
	}
	return nil, nil
}
