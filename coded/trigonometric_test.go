package coded

import (
	"math"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestTightFrame: the columns are orthonormal, so the squared norms of all coded
// blocks sum to those of the blocks (used for clipping without the weights).
func TestTightFrame(t *testing.T) {
	for n := 1; n <= 24; n++ {
		for k := 1; k <= n; k++ {
			g, err := mustCode(t, "trigonometric", n, k).Generator()
			if err != nil {
				t.Fatal(err)
			}
			for a := range k {
				for b := range k {
					var s, want float64
					for _, row := range g {
						s += row[a] * row[b]
					}
					if a == b {
						want = 1
					}
					if math.Abs(s-want) > 1e-14 {
						t.Errorf("n=%d, k=%d: columns %d and %d have product %g, want %g", n, k, a, b, s, want)
					}
				}
			}
		}
	}
}

// TestTrigonometricRows compares a row for an odd and an even k with the formula
// written out.
func TestTrigonometricRows(t *testing.T) {
	theta, scale := 2*math.Pi*3/7, math.Sqrt(2.0/7)
	for k, want := range map[int][]float64{
		1: {math.Sqrt2 / 2},
		4: {math.Cos(theta / 2), math.Sin(theta / 2), math.Cos(3 * theta / 2), math.Sin(3 * theta / 2)},
		5: {math.Sqrt2 / 2, math.Cos(theta), math.Sin(theta), math.Cos(2 * theta), math.Sin(2 * theta)},
	} {
		row := mustCode(t, "trigonometric", 7, k).Row(3)
		if len(row) != len(want) {
			t.Fatalf("k=%d: row %v, want %d columns", k, row, len(want))
		}
		for j := range want {
			if !near(row[j], scale*want[j]) {
				t.Errorf("k=%d, column %d: %g, want %g", k, j, row[j], scale*want[j])
			}
		}
	}
}

// TestModularCircle: the points lie on the circle, add up like angles, and those
// of different tasks differ in the full angle.
func TestModularCircle(t *testing.T) {
	p := field.Mersenne31
	c, err := newModularCircle(p, MaxTasks)
	if err != nil {
		t.Fatal(err)
	}
	full := map[[2]uint64]int{}
	for w := range MaxTasks {
		x, y := c.point(w, 1)
		if p.Add(p.Mul(x, x), p.Mul(y, y)) != 1 {
			t.Fatalf("task %d: (%d,%d) is not on the circle", w, x, y)
		}
		x2, y2 := c.turn(x, y, x, y)
		if cos, sin := c.point(w, 2); cos != x2 || sin != y2 {
			t.Fatalf("task %d: twice the angle is (%d,%d), want (%d,%d)", w, cos, sin, x2, y2)
		}
		x5, y5 := c.turn(x2, y2, x2, y2)
		x5, y5 = c.turn(x5, y5, x, y)
		if cos, sin := c.point(w, 5); cos != x5 || sin != y5 {
			t.Fatalf("task %d: five times the angle is (%d,%d), want (%d,%d)", w, cos, sin, x5, y5)
		}
		if other, ok := full[[2]uint64{x2, y2}]; ok {
			t.Fatalf("tasks %d and %d have the same angle", other, w)
		}
		full[[2]uint64{x2, y2}] = w
	}
	if _, err := newModularCircle(field.Fermat, 4); err == nil {
		t.Error("modulo 65537, where -1 has a root, there is no error")
	}
}
