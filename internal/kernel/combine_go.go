package kernel

// combineGo is combineVec in Go.
func combineGo(dst [][]float32, at int, w []float32, xs [][]float32, off, n int) {
	for s, d := range dst {
		d = d[at : at+n]
		for i, x := range xs {
			x, v := x[off:off+n], w[weightLanes*(i*len(dst)+s)]
			if i == 0 {
				scaleGo(d, v, x)
			} else {
				axpyGo(d, v, x)
			}
		}
	}
}
