package kernel

// moments holds two sums, each in lanes: lane l of 32 adds the columns l, l+32,
// ... of one row after another.
type moments [2][momentLanes]float32

const momentLanes = 32

// total adds the lanes of a sum in halves.
func (m *moments) total(i int) float64 {
	var t [momentLanes / 2]float64
	for l := range t {
		t[l] = float64(m[i][l]) + float64(m[i][l+momentLanes/2])
	}
	for h := momentLanes / 4; h > 0; h /= 2 {
		for l := range h {
			t[l] += t[l+h]
		}
	}
	return t[0]
}

// The kernels of batch normalisation in Go, over rows of n entries with stride
// ld; what the assembly is tested against to the bit.

func sumPlanesGo(m *moments, x []float32, ld, rows, n int) {
	for r := range rows {
		for j, v := range x[r*ld:][:n] {
			m[0][j%momentLanes] += v
		}
	}
}

func momentsGo(m *moments, x []float32, ld, rows, n int, near float32) {
	for r := range rows {
		for j, v := range x[r*ld:][:n] {
			d := v - near
			m[0][j%momentLanes] += d
			m[1][j%momentLanes] += float32(d * d)
		}
	}
}

// norm returns the normalised entry before ReLU.
func (a affine) norm(x float32) float32 { return float32((x-a.mean)*a.scale) + a.beta }

// rectified returns v unless it is negative; a NaN stays a NaN.
func rectified(v float32) float32 {
	if v < 0 {
		return 0
	}
	return v
}

func normGo(relu bool, y, x []float32, ld, rows, n int, a affine) {
	for r := range rows {
		out := y[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			v = a.norm(v)
			if relu {
				v = rectified(v)
			}
			out[j] = v
		}
	}
}

func normAddGo(relu bool, y, x, residual []float32, ld, rows, n int, a affine) {
	for r := range rows {
		out, add := y[r*ld:][:n], residual[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			v = a.norm(v) + add[j]
			if relu {
				v = rectified(v)
			}
			out[j] = v
		}
	}
}

func gradGo(relu bool, m *moments, dy, x []float32, ld, rows, n int, a affine) {
	for r := range rows {
		g := dy[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			d := g[j]
			if relu && a.norm(v) <= 0 {
				d = 0
			}
			m[0][j%momentLanes] += d
			m[1][j%momentLanes] += float32(d * (v - a.mean))
		}
	}
}

// gradMaskedGo writes to g what ReLU leaves of dy.
func gradMaskedGo(m *moments, g, dy, x, y []float32, ld, rows, n int, a affine) {
	for r := range rows {
		in, out, rec := dy[r*ld:][:n], g[r*ld:][:n], y[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			d := in[j]
			if rec[j] <= 0 {
				d = 0
			}
			out[j] = d
			m[0][j%momentLanes] += d
			m[1][j%momentLanes] += float32(d * (v - a.mean))
		}
	}
}

func normBackGo(relu bool, dx, dy, x []float32, ld, rows, n int, a affine, slope, rest float32) {
	for r := range rows {
		out, g := dx[r*ld:][:n], dy[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			d := g[j]
			if relu && a.norm(v) <= 0 {
				d = 0
			}
			out[j] = float32((d - float32((v-a.mean)*slope) - rest) * a.scale)
		}
	}
}
