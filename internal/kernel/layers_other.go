//go:build !amd64 || noasm

package kernel

func sumPlanesVec(m *moments, x []float32, ld, rows, n int) { sumPlanesGo(m, x, ld, rows, n) }
func momentsVec(m *moments, x []float32, ld, rows, n int, near float32) {
	momentsGo(m, x, ld, rows, n, near)
}
func tapSumsVec(y []float32, ldy int, x []float32, ldx int, w []float32, off []int, rows, n int, bias, floor float32) {
	tapSumsGo(y, ldy, x, ldx, w, off, rows, n, bias, floor)
}
func tapDotsVec(m, y []float32, ldy int, x []float32, ldx int, off *[tapBlock]int, rows, n int) {
	tapDotsGo(m, y, ldy, x, ldx, off, rows, n)
}
func splitPairsVec(even, odd []float32, ld int, x []float32, rows, n int) {
	splitPairsGo(even, odd, ld, x, rows, n)
}
func joinPairsVec(x []float32, ldx int, even, odd []float32, ld, rows, n int) {
	joinPairsGo(x, ldx, even, odd, ld, rows, n)
}
func normVec(relu bool, y, x []float32, ld, rows, n int, a affine) {
	normGo(relu, y, x, ld, rows, n, a)
}
func normAddVec(relu bool, y, x, residual []float32, ld, rows, n int, a affine) {
	normAddGo(relu, y, x, residual, ld, rows, n, a)
}
func gradVec(relu bool, m *moments, dy, x []float32, ld, rows, n int, a affine) {
	gradGo(relu, m, dy, x, ld, rows, n, a)
}
func gradMaskedVec(m *moments, g, dy, x, y []float32, ld, rows, n int, a affine) {
	gradMaskedGo(m, g, dy, x, y, ld, rows, n, a)
}
func normBackVec(relu bool, dx, dy, x []float32, ld, rows, n int, a affine, slope, rest float32) {
	normBackGo(relu, dx, dy, x, ld, rows, n, a, slope, rest)
}
func layerNormVec(y, x, gamma, beta []float32, mean, inv float32) {
	layerNormGo(y, x, gamma, beta, mean, inv)
}
func layerNormGradVec(m *moments, dy, x, gamma []float32, mean float32) {
	layerNormGradGo(m, dy, x, gamma, mean)
}
func layerNormBackVec(dx, dy, x, gamma []float32, mean, inv, slope, rest float32) {
	layerNormBackGo(dx, dy, x, gamma, mean, inv, slope, rest)
}
func layerNormParamsVec(dgamma, dbeta, dy, x []float32, mean, inv float32) {
	layerNormParamsGo(dgamma, dbeta, dy, x, mean, inv)
}
func activateVec(a Activation, dst, x []float32, p float32) { activateGo(a, dst, x, p) }
func activateBackVec(a Activation, dx, dy, z []float32, p float32) {
	activateBackGo(a, dx, dy, z, p)
}
func shiftVec(dst, x []float32, a, b float32)         { shiftGo(dst, x, a, b) }
func softmaxBackVec(dx, dy, y []float32, dot float32) { softmaxBackGo(dx, dy, y, dot) }
