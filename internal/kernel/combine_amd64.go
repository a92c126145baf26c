//go:build !noasm

package kernel

import "unsafe"

// combineVec makes one, two or four sums of n elements, from at on of dst and from
// off on of the inputs, of which there is at least one. It copies what is in c,
// which must be nothing but for four sums. The lengths have been checked.
func combineVec(dst [][]float32, at int, w []float32, xs [][]float32, off, n int, stream bool, c carry) {
	for _, d := range dst {
		stream = stream && untilAligned(d, at) == 0
	}
	avx512 := vectors == simdAVX512
	from, to := unsafe.SliceData(c.from), unsafe.SliceData(c.to)
	switch {
	case vectors == simdNone:
		combineGo(dst, at, w, xs, off, n)
		copy(c.to, c.from)
	case avx512 && len(dst) == 4:
		combine4AVX512(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream, from, to, c.ahead, len(c.from)/16)
	case avx512 && len(dst) == 2:
		combine2AVX512(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream)
	case avx512:
		combine1AVX512(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream)
	case len(dst) == 4:
		combine4AVX2(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream, from, to, c.ahead, len(c.from)/8)
	case len(dst) == 2:
		combine2AVX2(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream)
	default:
		combine1AVX2(&dst[0], at, &w[0], &xs[0], len(xs), off, n, stream)
	}
}
