package coded

import "testing"

func TestLoads(t *testing.T) {
	ones := func(n int) []float64 {
		row := make([]float64, n)
		for i := range row {
			row[i] = 1
		}
		return row
	}
	for name, test := range map[string]struct {
		d    Definition
		want Loads
	}{
		"one-sided": {
			Definition{ABlocks: 4, BBlocks: 1, Tasks: []Task{{A: [][]float64{ones(4)}, B: [][]float64{{1}}}}},
			Loads{Compute: 0.25, A: 0.25, B: 1, Download: 0.25},
		},
		"two-sided": { // C = A B with A in 2 x 1 and B in 1 x 4 blocks
			Definition{ABlocks: 2, BBlocks: 4, Tasks: []Task{{A: [][]float64{ones(2)}, B: [][]float64{ones(4), ones(4)}}}},
			Loads{Compute: 0.25, A: 0.5, B: 0.5, Download: 0.25},
		},
		"inner product": { // the whole C, from the two products of a task's four
			Definition{ABlocks: 4, BBlocks: 4, Outputs: []Output{{{0, 0}, {1, 1}, {2, 2}, {3, 3}}}, Tasks: []Task{{
				A: [][]float64{ones(4), ones(4)}, B: [][]float64{ones(4), ones(4)}, Results: []Output{{{0, 0}, {1, 1}}},
			}}},
			Loads{Compute: 0.5, A: 0.5, B: 0.5, Download: 1},
		},
		"gradients": { // three parts in two pieces; two of them are used, half a gradient is sent
			Definition{
				Kind: Gradients, ABlocks: 6, BBlocks: 1, Pieces: 2, Outputs: []Output{{{0, 0}, {2, 0}, {4, 0}}, {{1, 0}, {3, 0}, {5, 0}}},
				Tasks: []Task{{A: [][]float64{{1, 2, 0, 0, 0, 3}}, B: [][]float64{{1}}}},
			},
			Loads{Compute: 2. / 3, A: 2. / 3, Download: 0.5},
		},
	} {
		test.d.Name = name
		c, err := NewCode(test.d)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Loads(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
