//go:build !noasm

package kernel

// simd is a set of vector instructions.
type simd int

const (
	simdNone simd = iota
	simdAVX2
	simdAVX512
)

// vectors is what the vector kernels use.
var vectors = fastestSIMD()

func fastestSIMD() simd {
	switch {
	case hasAVX512:
		return simdAVX512
	case hasAVX2:
		return simdAVX2
	}
	return simdNone
}

// The functions below run a kernel of that set. Their callers have checked that
// the lengths agree, and that they are not 0: the kernels get raw pointers.

func addVec(dst, a, b []float32) {
	switch vectors {
	case simdAVX512:
		addAVX512(&dst[0], &a[0], &b[0], len(dst))
	case simdAVX2:
		addAVX2(&dst[0], &a[0], &b[0], len(dst))
	default:
		addGo(dst, a, b)
	}
}

func scaleVec(dst []float32, alpha float32, x []float32) {
	switch vectors {
	case simdAVX512:
		scaleAVX512(&dst[0], &x[0], len(dst), alpha)
	case simdAVX2:
		scaleAVX2(&dst[0], &x[0], len(dst), alpha)
	default:
		scaleGo(dst, alpha, x)
	}
}

func axpyVec(dst []float32, alpha float32, x []float32) {
	switch vectors {
	case simdAVX512:
		axpyAVX512(&dst[0], &x[0], len(dst), alpha)
	case simdAVX2:
		axpyAVX2(&dst[0], &x[0], len(dst), alpha)
	default:
		axpyGo(dst, alpha, x)
	}
}

func reluVec(dst, x []float32) {
	switch vectors {
	case simdAVX512:
		reluAVX512(&dst[0], &x[0], len(dst))
	case simdAVX2:
		reluAVX2(&dst[0], &x[0], len(dst))
	default:
		reluGo(dst, x)
	}
}

func addReLUVec(dst, a, b []float32) {
	switch vectors {
	case simdAVX512:
		addReLUAVX512(&dst[0], &a[0], &b[0], len(dst))
	case simdAVX2:
		addReLUAVX2(&dst[0], &a[0], &b[0], len(dst))
	default:
		addReLUGo(dst, a, b)
	}
}

func reluBackwardVec(dx, dy, y []float32) {
	switch vectors {
	case simdAVX512:
		reluBackwardAVX512(&dx[0], &dy[0], &y[0], len(dx))
	case simdAVX2:
		reluBackwardAVX2(&dx[0], &dy[0], &y[0], len(dx))
	default:
		reluBackwardGo(dx, dy, y)
	}
}

// columnSumsVec adds the sums over some rows, at least 1, to dst.
func columnSumsVec(dst, x []float32, ld, rows int) {
	switch vectors {
	case simdAVX512:
		columnSumsAVX512(&dst[0], &x[0], ld, rows, len(dst))
	case simdAVX2:
		columnSumsAVX2(&dst[0], &x[0], ld, rows, len(dst))
	default:
		columnSumsGo(dst, x, ld, rows)
	}
}

// The reductions hand whole groups of lanes to the kernels and do the rest in Go.

func sumVec(lanes *[sumLanes]float32, x []float32) {
	if n := len(x) / sumLanes * sumLanes; n > 0 && vectors != simdNone {
		if vectors == simdAVX512 {
			sumAVX512(&lanes[0], &x[0], n)
		} else {
			sumAVX2(&lanes[0], &x[0], n)
		}
		x = x[n:]
	}
	sumGo(lanes, x)
}

func dotVec(lanes *[sumLanes]float32, a, b []float32) {
	if n := len(a) / sumLanes * sumLanes; n > 0 && vectors != simdNone {
		if vectors == simdAVX512 {
			dotAVX512(&lanes[0], &a[0], &b[0], n)
		} else {
			dotAVX2(&lanes[0], &a[0], &b[0], n)
		}
		a, b = a[n:], b[n:]
	}
	dotGo(lanes, a, b)
}

// maxAbsVec returns the bits of the largest magnitude.
func maxAbsVec(x []float32) uint32 {
	var lanes [sumLanes]uint32
	if n := len(x) / sumLanes * sumLanes; n > 0 && vectors != simdNone {
		if vectors == simdAVX512 {
			maxAbsAVX512(&lanes[0], &x[0], n)
		} else {
			maxAbsAVX2(&lanes[0], &x[0], n)
		}
		x = x[n:]
	}
	most := maxAbsGo(x)
	for _, bits := range lanes {
		most = max(most, bits)
	}
	return most
}
