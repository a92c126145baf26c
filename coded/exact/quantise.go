package exact

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// maxLevels is the largest size of a quantised number: float32 holds all integers
// up to that.
const maxLevels = 1 << 24

// Levels returns the largest l for which sums of inner products of two integers
// from -l to l do not wrap around modulo p: inner l^2 <= (p-1)/2, and l at most
// 2^24. It fails if there is none.
func Levels(p field.Prime, inner int) (int64, error) {
	if !p.Valid() || inner < 1 {
		return 0, fmt.Errorf("exact: levels: %d terms modulo %d, want at least 1 modulo one of the fields", inner, p)
	}
	most := (int64(p) - 1) / 2 / int64(inner)
	l := min(int64(math.Sqrt(float64(most))), maxLevels)
	for l*l > most { // the root was rounded up
		l--
	}
	if l < 1 {
		return 0, fmt.Errorf("exact: levels: a sum of %d products wraps around modulo %d", inner, p)
	}
	return l, nil
}

// CheckRange returns an error if sums of inner products of integers of size up to
// la with integers of size up to lb could wrap around modulo p.
func CheckRange(p field.Prime, inner int, la, lb int64) error {
	if !p.Valid() || inner < 0 || la < 0 || lb < 0 {
		return fmt.Errorf("exact: range: %d products of %d and %d modulo %d", inner, la, lb, p)
	}
	if inner == 0 || la == 0 || lb == 0 || la <= (int64(p)-1)/2/int64(inner)/lb {
		return nil
	}
	return fmt.Errorf("exact: range: a sum of %d products of numbers up to %d and %d can wrap around modulo %d, which holds %d",
		inner, la, lb, p, (int64(p)-1)/2)
}

// Quantise writes the numbers of x as integers, at most levels in size, modulo p:
// element i stands for x[i]/step, rounded to the nearest integer, of two equally
// near ones the even. The step is the largest number over levels, or 1 if all are
// 0; a number is wrong by half a step at most. It fails if a number is not finite,
// or if levels do not fit between -p/2 and p/2.
func Quantise(dst []uint64, x []float32, p field.Prime, levels int64) (step float64, err error) {
	if len(dst) != len(x) {
		return 0, fmt.Errorf("exact: quantise: %d numbers into %d elements", len(x), len(dst))
	}
	if !p.Valid() || levels < 1 || levels > min(maxLevels, (int64(p)-1)/2) {
		return 0, fmt.Errorf("exact: quantise: %d levels modulo %d, want 1 to %d", levels, p, min(maxLevels, (int64(p)-1)/2))
	}
	largest := 0.0
	for i, v := range x {
		a := math.Abs(float64(v))
		if !(a <= math.MaxFloat32) {
			return 0, fmt.Errorf("exact: quantise: number %d is %v", i, v)
		}
		largest = max(largest, a)
	}
	step = largest / float64(levels)
	if step == 0 {
		step = 1
	}
	for i, v := range x {
		dst[i] = p.Int(int64(math.RoundToEven(float64(v) / step)))
	}
	return step, nil
}

// Dequantise gives the numbers back: of each element the integer between -p/2 and
// p/2, times step. For a product it is the product of both steps.
func Dequantise(dst []float32, x []uint64, p field.Prime, step float64) error {
	if len(dst) != len(x) {
		return fmt.Errorf("exact: dequantise: %d elements into %d numbers", len(x), len(dst))
	}
	for i, e := range x {
		v, err := Lift(p, e)
		if err != nil {
			return fmt.Errorf("exact: dequantise: element %d: %w", i, err)
		}
		dst[i] = float32(float64(v) * step)
	}
	return nil
}

// Lift returns the integer between -p/2 and p/2 whose residue e is.
func Lift(p field.Prime, e uint64) (int64, error) {
	switch {
	case e >= uint64(p):
		return 0, fmt.Errorf("%d is no element modulo %d", e, p)
	case e > uint64(p)/2:
		return int64(e) - int64(p), nil
	}
	return int64(e), nil
}
