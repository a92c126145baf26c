package nn

import (
	"slices"
	"sync"
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
)

// TestBlocks: the ranges cover everything once, whatever the remainder.
func TestBlocks(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	for _, n := range []int{0, 1, block, block + 1, 3*block - 1, 3 * block} {
		var mu sync.Mutex
		var ranges [][2]int
		blocks(pool, n, func(from, to int) {
			mu.Lock()
			defer mu.Unlock()
			ranges = append(ranges, [2]int{from, to})
		})
		slices.SortFunc(ranges, func(a, b [2]int) int { return a[0] - b[0] })
		at := 0
		for _, r := range ranges {
			if r[0] != at || r[1] < r[0] {
				t.Fatalf("%d elements: ranges %v", n, ranges)
			}
			at = r[1]
		}
		if at != n {
			t.Errorf("%d elements: ranges %v", n, ranges)
		}
	}
}

func TestAddBias(t *testing.T) {
	for _, c := range []struct {
		bias []float32
		relu bool
		want []float32
	}{
		{nil, false, []float32{1, -2, -3, 4}},
		{nil, true, []float32{1, 0, 0, 4}},
		{[]float32{1, 2}, false, []float32{2, 0, -2, 6}},
		{[]float32{-2, 3}, true, []float32{0, 1, 0, 7}},
	} {
		y := []float32{1, -2, -3, 4}
		addBias(nil, y, c.bias, c.relu)
		if !slices.Equal(y, c.want) {
			t.Errorf("bias %v, relu %v: %v, want %v", c.bias, c.relu, y, c.want)
		}
	}
}
