//go:build !amd64 || noasm

package kernel

func addVec(dst, a, b []float32)                         { addGo(dst, a, b) }
func scaleVec(dst []float32, alpha float32, x []float32) { scaleGo(dst, alpha, x) }
func axpyVec(dst []float32, alpha float32, x []float32)  { axpyGo(dst, alpha, x) }
func reluVec(dst, x []float32)                           { reluGo(dst, x) }
func addReLUVec(dst, a, b []float32)                     { addReLUGo(dst, a, b) }
func reluBackwardVec(dx, dy, y []float32)                { reluBackwardGo(dx, dy, y) }
func columnSumsVec(dst, x []float32, ld, rows int)       { columnSumsGo(dst, x, ld, rows) }
func sumVec(lanes *[sumLanes]float32, x []float32)       { sumGo(lanes, x) }
func dotVec(lanes *[sumLanes]float32, a, b []float32)    { dotGo(lanes, a, b) }
func maxAbsVec(x []float32) uint32                       { return maxAbsGo(x) }
