package kernel

import "math"

// This file holds the vector kernels in Go: what every processor can run, and
// what the assembly is tested against to the bit. The conversions float32(x*y)
// keep the compiler from fusing a product with a sum.

func addGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func scaleGo(dst []float32, alpha float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = alpha * x[i]
	}
}

func axpyGo(dst []float32, alpha float32, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += float32(alpha * x[i])
	}
}

func reluGo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

func reluBackwardGo(dx, dy, y []float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		if y[i] <= 0 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

func addReLUGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		v := a[i] + b[i]
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

func columnSumsGo(dst, x []float32, ld, rows int) {
	const width = 16
	for lo := 0; lo < len(dst); lo += width {
		var sums [width]float32
		n := min(width, len(dst)-lo)
		for r := range rows {
			for j, v := range x[r*ld+lo:][:n] {
				sums[j] += v
			}
		}
		for j, v := range sums[:n] {
			dst[lo+j] += v
		}
	}
}

func sumGo(lanes *[sumLanes]float32, x []float32) {
	for i, v := range x {
		lanes[i%sumLanes] += v
	}
}

func dotGo(lanes *[sumLanes]float32, a, b []float32) {
	b = b[:len(a)]
	for i, v := range a {
		lanes[i%sumLanes] += float32(v * b[i])
	}
}

// maxAbsGo returns the bits of the largest magnitude. As integers, the bits of
// magnitudes are ordered like their values, with the NaNs on top.
func maxAbsGo(x []float32) (most uint32) {
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	return most
}
