package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// TestSums compares with float64 and, to the bit, with the documented order.
func TestSums(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, n := range []int{0, 1, 5, 63, 64, 65, 200, 4095, 4096, 4097, 20000} {
			a, _ := testVector(r, n, false)
			b, _ := testVector(r, n, false)
			var sum, dot, sumSize, dotSize float64
			products := make([]float32, n)
			for i := range a {
				products[i] = a[i] * b[i]
				sum += float64(a[i])
				dot += float64(a[i]) * float64(b[i])
				sumSize += math.Abs(float64(a[i]))
				dotSize += math.Abs(float64(a[i]) * float64(b[i]))
			}
			// 64 elements a lane, 6 halvings, the product and the result
			const steps = 64 + 6 + 2
			if got := Sum(a); math.Abs(float64(got)-sum) > sumSize*steps*0x1p-24 || got != inOrder(a) {
				t.Errorf("n %d: Sum = %v, want %v and in the documented order %v", n, got, sum, inOrder(a))
			}
			if got := Dot(a, b); math.Abs(float64(got)-dot) > dotSize*steps*0x1p-24 || got != inOrder(products) {
				t.Errorf("n %d: Dot = %v, want %v and in the documented order %v", n, got, dot, inOrder(products))
			}
		}
	})
}

// inOrder sums as the comment at sumLanes says, written another way.
func inOrder(x []float32) float32 {
	var total float64
	for lo := 0; lo < len(x); lo += 4096 {
		block := x[lo:min(lo+4096, len(x))]
		var fold func(lane, count int) float32
		fold = func(lane, count int) float32 {
			if count < 64 {
				return fold(lane, 2*count) + fold(lane+count, 2*count)
			}
			var sum float32
			for i := lane; i < len(block); i += 64 {
				sum += block[i]
			}
			return sum
		}
		total += float64(fold(0, 1))
	}
	return float32(total)
}

func TestMaxAbs(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		if got := MaxAbs(nil); got != 0 {
			t.Errorf("MaxAbs of nothing = %v", got)
		}
		for _, n := range []int{1, 63, 64, 65, 200, 1000} {
			x, _ := testVector(r, n, false)
			for at := range n {
				was := x[at]
				for _, v := range []float32{-100, 100, -inf, nan} {
					x[at] = v
					want := float32(math.Abs(float64(v)))
					if got := MaxAbs(x); !sameBits(got, want) {
						t.Fatalf("n %d: MaxAbs with %v at %d = %v", n, v, at, got)
					}
				}
				x[at] = was
			}
		}
	})
}

func TestVectorsAllocateNothing(t *testing.T) {
	x, y, w := make([]float32, 100), make([]float32, 100), []float32{1}
	if got := steady.Allocs(10, func() {
		xs := [1][]float32{y}
		Add(x, x, y)
		Combine(x, w, xs[:])
		ColumnSums(x[:10], y, 10, 10)
		SGD(x, nil, y, testSGD0)
		Adam(x, x, x, y, testAdam)
		AMSGrad(x, x, x, x, y, testAdam)
		RMSProp(x, x, x, y, testRMS)
		weight, change := Lamb(w, w, w, w, w, testAdam)
		y[0] = Sum(x) + Dot(x, y) + MaxAbs(x) + float32(weight+change)
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

var testSGD0 = SGDStep{LR: 1, Scale: 1}
