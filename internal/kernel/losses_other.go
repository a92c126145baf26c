//go:build !amd64 || noasm

package kernel

func mseVec(lanes *lossLanes, grad, x, target []float32, scale float32) {
	mseGo(lanes, grad, x, target, scale)
}
func smoothL1Vec(lanes *lossLanes, grad, x, target []float32, scale, beta, half float32) {
	smoothL1Go(lanes, grad, x, target, scale, beta, half)
}
func bceVec(lanes *lossLanes, grad, x, target []float32, scale float32) {
	bceGo(lanes, grad, x, target, scale)
}
func expSumVec(lanes *lossLanes, dst, x []float32, top float32) { expSumGo(lanes, dst, x, top) }
func weightedSumVec(lanes *lossLanes, w, x []float32)           { weightedSumGo(lanes, w, x) }
func rowMaxVec(x []float32) float32                             { return rowMaxGo(x) }
