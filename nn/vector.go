package nn

// addTo adds x to dst.
func addTo(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// biasReLU sets dst to x plus bias (repeated along the rows, nil for none),
// followed by max(0, .) if asked. dst may be x.
func biasReLU(dst, x, bias []float32, relu bool) {
	cols := len(bias)
	if cols == 0 {
		cols = len(x)
	}
	for len(x) > 0 {
		row, out := x[:cols], dst[:cols]
		for i, v := range row {
			if bias != nil {
				v += bias[i]
			}
			if relu && v < 0 {
				v = 0
			}
			out[i] = v
		}
		x, dst = x[cols:], dst[cols:]
	}
}

// reluBackward sets dst to dy where y > 0 and to 0 elsewhere.
func reluBackward(dst, y, dy []float32) {
	for i, v := range y {
		if v > 0 {
			dst[i] = dy[i]
		} else {
			dst[i] = 0
		}
	}
}
