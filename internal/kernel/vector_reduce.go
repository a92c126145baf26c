package kernel

import "math"

// Sums run in blocks of sumBlock elements. Inside a block, lane l of 64 adds
// the elements l, l+64, ... one after another; the lanes are then added in
// halves (l and l+32, l and l+16, ...). The sums of the blocks are added one
// after another in float64. The order depends on the length alone, so the
// result has the same bits on every processor.
const (
	sumLanes = 64
	sumBlock = 4096
)

// Sum returns the sum of x, in the order stated above.
func Sum(x []float32) float32 { return float32(sum64(x)) }

// sum64 is Sum before its last rounding.
func sum64(x []float32) float64 {
	var total float64
	var lanes [sumLanes]float32
	for len(x) > 0 {
		n := min(len(x), sumBlock)
		lanes = [sumLanes]float32{}
		sumVec(&lanes, x[:n])
		total += float64(foldLanes(&lanes))
		x = x[n:]
	}
	return total
}

// Dot returns the sum of a[i]*b[i], each product rounded to float32, in the
// order of Sum.
func Dot(a, b []float32) float32 {
	checkLen("dot", "b", len(a), len(b))
	var total float64
	var lanes [sumLanes]float32
	for len(a) > 0 {
		n := min(len(a), sumBlock)
		lanes = [sumLanes]float32{}
		dotVec(&lanes, a[:n], b[:n])
		total += float64(foldLanes(&lanes))
		a, b = a[n:], b[n:]
	}
	return float32(total)
}

// MaxAbs returns the largest magnitude in x, 0 for no elements, and NaN if an
// element is NaN.
func MaxAbs(x []float32) float32 { return math.Float32frombits(maxAbsVec(x)) }

func foldLanes(lanes *[sumLanes]float32) float32 {
	for h := sumLanes / 2; h > 0; h /= 2 {
		for l := range h {
			lanes[l] += lanes[l+h]
		}
	}
	return lanes[0]
}
