package kernel

// The kernels of convolutions plane by plane in Go, over rows of n entries.

// tapBlock is how many taps tapDots takes together, tapLanes how many sums there
// are of each: lane l takes the columns l, l+tapLanes, ...
const (
	tapBlock = 5
	tapLanes = 16
)

func tapSumsGo(y []float32, ldy int, x []float32, ldx int, w []float32, off []int, rows, n int, bias, floor float32) {
	for r := range rows {
		out := y[r*ldy:][:n]
		for j := range out {
			out[j] = bias
		}
		for k, at := range off {
			v := w[k]
			for j, u := range x[r*ldx+at:][:n] {
				out[j] += float32(v * u)
			}
		}
		for j, v := range out {
			out[j] = max(v, floor)
		}
	}
}

func tapDotsGo(m, y []float32, ldy int, x []float32, ldx int, off *[tapBlock]int, rows, n int) {
	for k, at := range off {
		lanes := (*[tapLanes]float32)(m[k*tapLanes:])
		for r := range rows {
			in := x[r*ldx+at:][:n]
			for j, v := range y[r*ldy:][:n] {
				lanes[j%tapLanes] += float32(v * in[j])
			}
		}
	}
}

func splitPairsGo(even, odd []float32, ld int, x []float32, rows, n int) {
	for r := range rows {
		for j, v := range x[r*n:][:n] {
			if j%2 == 0 {
				even[r*ld+j/2] = v
			} else {
				odd[r*ld+j/2] = v
			}
		}
	}
}

func joinPairsGo(x []float32, ldx int, even, odd []float32, ld, rows, n int) {
	for r := range rows {
		out := x[r*ldx:][:n]
		for j := range out {
			if j%2 == 0 {
				out[j] = even[r*ld+j/2]
			} else {
				out[j] = odd[r*ld+j/2]
			}
		}
	}
}
