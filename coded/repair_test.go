package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/combin"
)

func mustCode(t testing.TB, name string, n, k int) *Code {
	t.Helper()
	c, err := New(Spec{Name: name, N: n, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRepairsDoNotCompound loses and repairs random slots many times in a row,
// in float32, and compares the last state with an encoding of the weights.
func TestRepairsDoNotCompound(t *testing.T) {
	for _, size := range [][2]int{{6, 4}, {8, 6}, {18, 15}} {
		for lost := 1; lost <= 2; lost++ {
			c := mustCode(t, "trigonometric", size[0], size[1])
			rng := rand.New(rand.NewPCG(5, uint64(lost)))
			blocks := make([]Tensor, c.K())
			for j := range blocks {
				blocks[j] = NewTensor(100)
				for i := range blocks[j].Data {
					blocks[j].Data[i] = float32(rng.NormFloat64())
				}
			}
			slots := make([]Tensor, c.N())
			for i := range slots {
				slots[i] = NewTensor(100)
				if err := Encode(slots[i], c.Row(i), blocks); err != nil {
					t.Fatal(err)
				}
			}
			original := make([]Tensor, c.N())
			for i, s := range slots {
				original[i] = Tensor{s.Shape, slices.Clone(s.Data)}
			}
			worst := 0.0
			for range 200 / lost {
				perm := rng.Perm(c.N())
				for _, l := range perm[:lost] {
					donors, weights, amplification, err := c.Repair(l, perm[lost:])
					if err != nil {
						t.Fatal(err)
					}
					worst = max(worst, amplification)
					var states []Tensor
					for _, d := range donors {
						states = append(states, slots[d])
					}
					if err := Encode(slots[l], weights, states); err != nil {
						t.Fatal(err)
					}
				}
			}
			var e float64
			for i, s := range slots {
				for j, v := range s.Data {
					e = max(e, math.Abs(float64(v-original[i].Data[j])))
				}
			}
			t.Logf("%v lost %d: error %.3g amp %.3g", c, lost, e, worst)
		}
	}
}

var _ = combin.Binomial
var _ = errors.Is
