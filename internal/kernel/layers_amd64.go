//go:build !noasm

package kernel

import "slices"

//go:generate go -C gen run . -layers -out ../kernels_layers_amd64.s -stubs ../kernels_layers_amd64.go -pkg kernel

// activationKernels are an activation's kernels in assembly; the one of ReLU is
// among the vector kernels.
type activationKernels struct {
	forward  func(dst, x *float32, n int, p float32)
	backward func(dx, dy, z *float32, n int, p float32)
}

var activationsSIMD = [...][activationCount]activationKernels{
	simdAVX2: {
		ActLeakyReLU: {leakyReLUAVX2, leakyReLUBackwardAVX2},
		ActExp:       {expAVX2, expBackwardAVX2},
		ActTanh:      {tanhAVX2, tanhBackwardAVX2},
		ActSigmoid:   {sigmoidAVX2, sigmoidBackwardAVX2},
		ActSiLU:      {siluAVX2, siluBackwardAVX2},
		ActGELU:      {geluAVX2, geluBackwardAVX2},
		ActSoftplus:  {softplusAVX2, softplusBackwardAVX2},
		ActELU:       {eluAVX2, eluBackwardAVX2},
		ActHardswish: {hardswishAVX2, hardswishBackwardAVX2},
	},
	simdAVX512: {
		ActLeakyReLU: {leakyReLUAVX512, leakyReLUBackwardAVX512},
		ActExp:       {expAVX512, expBackwardAVX512},
		ActTanh:      {tanhAVX512, tanhBackwardAVX512},
		ActSigmoid:   {sigmoidAVX512, sigmoidBackwardAVX512},
		ActSiLU:      {siluAVX512, siluBackwardAVX512},
		ActGELU:      {geluAVX512, geluBackwardAVX512},
		ActSoftplus:  {softplusAVX512, softplusBackwardAVX512},
		ActELU:       {eluAVX512, eluBackwardAVX512},
		ActHardswish: {hardswishAVX512, hardswishBackwardAVX512},
	},
}

func activateVec(a Activation, dst, x []float32, p float32) {
	switch {
	case len(dst) == 0:
	case a == ActReLU:
		reluVec(dst, x)
	case vectors == simdNone:
		activateGo(a, dst, x, p)
	default:
		activationsSIMD[vectors][a].forward(&dst[0], &x[0], len(dst), p)
	}
}

func activateBackVec(a Activation, dx, dy, z []float32, p float32) {
	switch {
	case len(dx) == 0:
	case a == ActReLU:
		reluBackwardVec(dx, dy, z)
	case vectors == simdNone:
		activateBackGo(a, dx, dy, z, p)
	default:
		activationsSIMD[vectors][a].backward(&dx[0], &dy[0], &z[0], len(dx), p)
	}
}

// The kernels below get raw pointers: each array is checked to hold the last
// entry. There is at least one row, and one entry in it.

func lastEntry(ld, rows, n int) int { return (rows-1)*ld + n - 1 }

func sumPlanesVec(m *moments, x []float32, ld, rows, n int) {
	last := lastEntry(ld, rows, n)
	_ = x[last]
	switch {
	case vectors == simdNone:
		sumPlanesGo(m, x, ld, rows, n)
	case vectors == simdAVX512:
		sumPlanesAVX512(&m[0][0], &x[0], ld, rows, n)
	case vectors == simdAVX2:
		sumPlanesAVX2(&m[0][0], &x[0], ld, rows, n)
	}
}

func momentsVec(m *moments, x []float32, ld, rows, n int, near float32) {
	last := lastEntry(ld, rows, n)
	_ = x[last]
	switch {
	case vectors == simdNone:
		momentsGo(m, x, ld, rows, n, near)
	case vectors == simdAVX512:
		momentsAVX512(&m[0][0], &x[0], ld, rows, n, near)
	case vectors == simdAVX2:
		momentsAVX2(&m[0][0], &x[0], ld, rows, n, near)
	}
}

func tapSumsVec(y []float32, ldy int, x []float32, ldx int, w []float32, off []int, rows, n int, bias, floor float32) {
	_, _ = y[lastEntry(ldy, rows, n)], x[slices.Max(off)+lastEntry(ldx, rows, n)+vectorSlack]
	_ = w[len(off)-1]
	switch vectors {
	case simdAVX512:
		tapSumsAVX512(&y[0], ldy, &x[0], ldx, &w[0], &off[0], len(off), rows, n, bias, floor)
	case simdAVX2:
		tapSumsAVX2(&y[0], ldy, &x[0], ldx, &w[0], &off[0], len(off), rows, n, bias, floor)
	default:
		tapSumsGo(y, ldy, x, ldx, w, off, rows, n, bias, floor)
	}
}

func tapDotsVec(m, y []float32, ldy int, x []float32, ldx int, off *[tapBlock]int, rows, n int) {
	_, _ = y[lastEntry(ldy, rows, n)], x[slices.Max(off[:])+lastEntry(ldx, rows, n)+vectorSlack]
	_ = m[tapBlock*tapLanes-1]
	switch vectors {
	case simdAVX512:
		tapDotsAVX512(&m[0], &y[0], ldy, &x[0], ldx, &off[0], rows, n)
	case simdAVX2:
		tapDotsAVX2(&m[0], &y[0], ldy, &x[0], ldx, &off[0], rows, n)
	default:
		tapDotsGo(m, y, ldy, x, ldx, off, rows, n)
	}
}

// checkPairRows panics unless the pieces hold the entries of rows of n pairs, and
// something even where there is no pair.
func checkPairRows(even, odd []float32, ld, rows, n int) {
	_, _ = even[lastEntry(ld, rows, (n+1)/2)], odd[max(0, lastEntry(ld, rows, n/2))]
}

func splitPairsVec(even, odd []float32, ld int, x []float32, rows, n int) {
	checkPairRows(even, odd, ld, rows, n)
	_ = x[rows*n-1]
	switch vectors {
	case simdAVX512:
		splitPairsAVX512(&even[0], &odd[0], ld, &x[0], n, rows, n)
	case simdAVX2:
		splitPairsAVX2(&even[0], &odd[0], ld, &x[0], n, rows, n)
	default:
		splitPairsGo(even, odd, ld, x, rows, n)
	}
}

func joinPairsVec(x []float32, ldx int, even, odd []float32, ld, rows, n int) {
	checkPairRows(even, odd, ld, rows, n)
	_ = x[lastEntry(ldx, rows, n)]
	switch vectors {
	case simdAVX512:
		joinPairsAVX512(&x[0], ldx, &even[0], &odd[0], ld, rows, n)
	case simdAVX2:
		joinPairsAVX2(&x[0], ldx, &even[0], &odd[0], ld, rows, n)
	default:
		joinPairsGo(x, ldx, even, odd, ld, rows, n)
	}
}

func normVec(relu bool, y, x []float32, ld, rows, n int, a affine) {
	last := lastEntry(ld, rows, n)
	_, _ = y[last], x[last]
	switch {
	case vectors == simdNone:
		normGo(relu, y, x, ld, rows, n, a)
	case vectors == simdAVX512 && relu:
		normReLUAVX512(&y[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2 && relu:
		normReLUAVX2(&y[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX512:
		normAVX512(&y[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2:
		normAVX2(&y[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	}
}

func normAddVec(relu bool, y, x, residual []float32, ld, rows, n int, a affine) {
	last := lastEntry(ld, rows, n)
	_, _, _ = y[last], x[last], residual[last]
	switch {
	case vectors == simdNone:
		normAddGo(relu, y, x, residual, ld, rows, n, a)
	case vectors == simdAVX512 && relu:
		normAddReLUAVX512(&y[0], &x[0], &residual[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2 && relu:
		normAddReLUAVX2(&y[0], &x[0], &residual[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX512:
		normAddAVX512(&y[0], &x[0], &residual[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2:
		normAddAVX2(&y[0], &x[0], &residual[0], ld, rows, n, a.mean, a.scale, a.beta)
	}
}

func gradVec(relu bool, m *moments, dy, x []float32, ld, rows, n int, a affine) {
	last := lastEntry(ld, rows, n)
	_, _ = dy[last], x[last]
	switch {
	case vectors == simdNone:
		gradGo(relu, m, dy, x, ld, rows, n, a)
	case vectors == simdAVX512 && relu:
		gradReLUAVX512(&m[0][0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2 && relu:
		gradReLUAVX2(&m[0][0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX512:
		gradAVX512(&m[0][0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2:
		gradAVX2(&m[0][0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta)
	}
}

func gradMaskedVec(m *moments, g, dy, x, y []float32, ld, rows, n int, a affine) {
	last := lastEntry(ld, rows, n)
	_, _, _, _ = g[last], dy[last], x[last], y[last]
	switch {
	case vectors == simdNone:
		gradMaskedGo(m, g, dy, x, y, ld, rows, n, a)
	case vectors == simdAVX512:
		gradMaskedAVX512(&m[0][0], &g[0], &dy[0], &x[0], &y[0], ld, rows, n, a.mean, a.scale, a.beta)
	case vectors == simdAVX2:
		gradMaskedAVX2(&m[0][0], &g[0], &dy[0], &x[0], &y[0], ld, rows, n, a.mean, a.scale, a.beta)
	}
}

func normBackVec(relu bool, dx, dy, x []float32, ld, rows, n int, a affine, slope, rest float32) {
	last := lastEntry(ld, rows, n)
	_, _, _ = dx[last], dy[last], x[last]
	switch {
	case vectors == simdNone:
		normBackGo(relu, dx, dy, x, ld, rows, n, a, slope, rest)
	case vectors == simdAVX512 && relu:
		normBackReLUAVX512(&dx[0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta, slope, rest)
	case vectors == simdAVX2 && relu:
		normBackReLUAVX2(&dx[0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta, slope, rest)
	case vectors == simdAVX512:
		normBackAVX512(&dx[0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta, slope, rest)
	case vectors == simdAVX2:
		normBackAVX2(&dx[0], &dy[0], &x[0], ld, rows, n, a.mean, a.scale, a.beta, slope, rest)
	}
}

func layerNormVec(y, x, gamma, beta []float32, mean, inv float32) {
	last := len(y) - 1
	_, _, _, _ = y[last], x[last], gamma[last], beta[last]
	switch vectors {
	case simdAVX512:
		layerNormAVX512(&y[0], &x[0], &gamma[0], &beta[0], last+1, mean, inv)
	case simdAVX2:
		layerNormAVX2(&y[0], &x[0], &gamma[0], &beta[0], last+1, mean, inv)
	default:
		layerNormGo(y, x, gamma, beta, mean, inv)
	}
}

func layerNormGradVec(m *moments, dy, x, gamma []float32, mean float32) {
	n := len(dy)
	_, _ = x[n-1], gamma[n-1]
	switch vectors {
	case simdAVX512:
		layerNormGradAVX512(&m[0][0], &dy[0], &x[0], &gamma[0], n, 1, n, mean)
	case simdAVX2:
		layerNormGradAVX2(&m[0][0], &dy[0], &x[0], &gamma[0], n, 1, n, mean)
	default:
		layerNormGradGo(m, dy, x, gamma, mean)
	}
}

func layerNormBackVec(dx, dy, x, gamma []float32, mean, inv, slope, rest float32) {
	last := len(dx) - 1
	_, _, _, _ = dx[last], dy[last], x[last], gamma[last]
	switch vectors {
	case simdAVX512:
		layerNormBackAVX512(&dx[0], &dy[0], &x[0], &gamma[0], last+1, mean, inv, slope, rest)
	case simdAVX2:
		layerNormBackAVX2(&dx[0], &dy[0], &x[0], &gamma[0], last+1, mean, inv, slope, rest)
	default:
		layerNormBackGo(dx, dy, x, gamma, mean, inv, slope, rest)
	}
}

func layerNormParamsVec(dgamma, dbeta, dy, x []float32, mean, inv float32) {
	last := len(dgamma) - 1
	_, _, _, _ = dgamma[last], dbeta[last], dy[last], x[last]
	switch vectors {
	case simdAVX512:
		layerNormParamsAVX512(&dgamma[0], &dbeta[0], &dy[0], &x[0], last+1, mean, inv)
	case simdAVX2:
		layerNormParamsAVX2(&dgamma[0], &dbeta[0], &dy[0], &x[0], last+1, mean, inv)
	default:
		layerNormParamsGo(dgamma, dbeta, dy, x, mean, inv)
	}
}

func shiftVec(dst, x []float32, a, b float32) {
	last := len(dst) - 1
	_, _ = dst[last], x[last]
	switch vectors {
	case simdAVX512:
		shiftAVX512(&dst[0], &x[0], last+1, a, b)
	case simdAVX2:
		shiftAVX2(&dst[0], &x[0], last+1, a, b)
	default:
		shiftGo(dst, x, a, b)
	}
}

func softmaxBackVec(dx, dy, y []float32, dot float32) {
	last := len(dx) - 1
	_, _, _ = dx[last], dy[last], y[last]
	switch vectors {
	case simdAVX512:
		softmaxBackAVX512(&dx[0], &dy[0], &y[0], last+1, dot)
	case simdAVX2:
		softmaxBackAVX2(&dx[0], &dy[0], &y[0], last+1, dot)
	default:
		softmaxBackGo(dx, dy, y, dot)
	}
}
