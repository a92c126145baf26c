//go:build !noasm

package kernel

//go:generate go -C gen run . -losses -out ../kernels_losses_amd64.s -stubs ../kernels_losses_amd64.go -pkg kernel

// The kernels below get raw pointers: each array is checked to hold the last
// entry. There is at least one.

func mseVec(lanes *lossLanes, grad, x, target []float32, scale float32) {
	last := len(x) - 1
	_, _ = grad[last], target[last]
	switch vectors {
	case simdAVX512:
		mseAVX512(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale)
	case simdAVX2:
		mseAVX2(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale)
	default:
		mseGo(lanes, grad, x, target, scale)
	}
}

func smoothL1Vec(lanes *lossLanes, grad, x, target []float32, scale, beta, half float32) {
	last := len(x) - 1
	_, _ = grad[last], target[last]
	switch vectors {
	case simdAVX512:
		smoothL1AVX512(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale, beta, half)
	case simdAVX2:
		smoothL1AVX2(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale, beta, half)
	default:
		smoothL1Go(lanes, grad, x, target, scale, beta, half)
	}
}

func bceVec(lanes *lossLanes, grad, x, target []float32, scale float32) {
	last := len(x) - 1
	_, _ = grad[last], target[last]
	switch vectors {
	case simdAVX512:
		bceAVX512(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale)
	case simdAVX2:
		bceAVX2(&lanes[0], &grad[0], &x[0], &target[0], last+1, scale)
	default:
		bceGo(lanes, grad, x, target, scale)
	}
}

func expSumVec(lanes *lossLanes, dst, x []float32, top float32) {
	last := len(x) - 1
	_ = dst[last]
	switch vectors {
	case simdAVX512:
		expSumAVX512(&lanes[0], &dst[0], &x[0], last+1, top)
	case simdAVX2:
		expSumAVX2(&lanes[0], &dst[0], &x[0], last+1, top)
	default:
		expSumGo(lanes, dst, x, top)
	}
}

func weightedSumVec(lanes *lossLanes, w, x []float32) {
	last := len(x) - 1
	_ = w[last]
	switch vectors {
	case simdAVX512:
		weightedSumAVX512(&lanes[0], &w[0], &x[0], last+1)
	case simdAVX2:
		weightedSumAVX2(&lanes[0], &w[0], &x[0], last+1)
	default:
		weightedSumGo(lanes, w, x)
	}
}

func rowMaxVec(x []float32) float32 {
	switch vectors {
	case simdAVX512:
		return rowMaxAVX512(&x[0], len(x))
	case simdAVX2:
		return rowMaxAVX2(&x[0], len(x))
	}
	return rowMaxGo(x)
}
