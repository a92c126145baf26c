package coded

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestAnnihilatingColumns: the coefficients take the upper Chebyshev coefficients
// of any polynomial from its values.
func TestAnnihilatingColumns(t *testing.T) {
	points, holders := spreadPoints(9, 4), []int{1, 2, 3, 4}
	columns, err := annihilatingColumns(field.Real{}, points, holders, 2)
	if err != nil {
		t.Fatal(err)
	}
	coefficients := []float64{0.3, -1, 2, 0.7}
	var got [2]float64
	for j, w := range holders {
		value := dot(coefficients, chebyshevValues(field.Real{}, points[w], 4))
		got[0] += columns[j][0] * value
		got[1] += columns[j][1] * value
	}
	if math.Abs(got[0]-2) > 1e-14 || math.Abs(got[1]-0.7) > 1e-14 {
		t.Errorf("coefficients %v, want 2 and 0.7", got)
	}
	holders[0] = 4
	if _, err := annihilatingColumns(field.Real{}, points, holders, 2); !errors.As(err, new(*field.SingularError)) {
		t.Errorf("a worker that is listed twice: %v", err)
	}
}

func TestChebyshevValues(t *testing.T) {
	for i, v := range chebyshevValues(field.Real{}, math.Cos(0.7), 6) {
		if want := math.Cos(0.7 * float64(i)); math.Abs(v-want) > 1e-15 {
			t.Errorf("T_%d(cos 0.7) = %g, want %g", i, v, want)
		}
	}
	if got := chebyshevValues(field.Mersenne31, 3, 1); !slices.Equal(got, []uint64{1}) {
		t.Errorf("of degree 0: %v", got)
	}
}

// TestSpreadPoints: they are the Chebyshev points, and neighbours are spread.
func TestSpreadPoints(t *testing.T) {
	for _, test := range []struct{ n, d int }{{1, 1}, {5, 1}, {6, 2}, {10, 3}, {20, 4}, {23, 5}} {
		points := spreadPoints(test.n, test.d)
		sorted := slices.Clone(points)
		slices.Sort(sorted)
		for j, x := range sorted {
			if want := -math.Cos(math.Pi * (float64(j) + 0.5) / float64(test.n)); math.Abs(x-want) > 1e-15 {
				t.Errorf("n=%d: point %d is %g, want %g", test.n, j, x, want)
			}
		}
		for w := range points {
			for i := 1; i < test.d; i++ {
				gap := math.Abs(math.Acos(points[w]) - math.Acos(points[(w+i)%test.n]))
				if gap < math.Pi/float64(2*test.d) {
					t.Errorf("n=%d, d=%d: workers %d and %d are %.2g apart", test.n, test.d, w, w+i, gap)
				}
			}
		}
	}
}

// TestPowersOfThree: as many points as there can be tasks, in every field.
func TestPowersOfThree(t *testing.T) {
	for _, p := range []field.Prime{field.Fermat, field.Mersenne31, field.Mersenne61} {
		points := powersOfThree(p, MaxTasks)
		slices.Sort(points)
		if len(slices.Compact(points)) != MaxTasks || points[0] == 0 {
			t.Errorf("modulo %d, powers of three repeat", p)
		}
	}
}
