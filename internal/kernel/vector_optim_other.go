//go:build !amd64 || noasm

package kernel

func sgdVec(w, grad []float32, s *SGDStep)                       { sgdGo(w, grad, s) }
func sgdMomentumVec(w, velocity, grad []float32, s *SGDStep)     { sgdMomentumGo(w, velocity, grad, s) }
func adamVec(dst, w, m, v, grad []float32, c *adamConstants)     { adamGo(dst, w, m, v, grad, c) }
func amsgradVec(w, m, v, most, grad []float32, c *adamConstants) { amsgradGo(w, m, v, most, grad, c) }
func rmsVec(w, v, grad []float32, c *rmsConstants)               { rmsGo(w, v, grad, c) }
func rmsMomentumVec(w, v, velo, grad []float32, c *rmsConstants) { rmsMomentumGo(w, v, velo, grad, c) }
func sumSquaresVec(lanes *[squareLanes]float64, x []float32)     { sumSquaresGo(lanes, x) }
