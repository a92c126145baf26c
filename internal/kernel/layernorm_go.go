package kernel

// The kernels of layer normalisation in Go, over one row; what the assembly is
// tested against to the bit.

func layerNormGo(y, x, gamma, beta []float32, mean, inv float32) {
	x, gamma, beta = x[:len(y)], gamma[:len(y)], beta[:len(y)]
	for j := range y {
		y[j] = float32(float32((x[j]-mean)*inv)*gamma[j]) + beta[j]
	}
}

// layerNormGradGo adds dy*gamma and dy*gamma*(x-mean) to the lanes.
func layerNormGradGo(m *moments, dy, x, gamma []float32, mean float32) {
	x, gamma = x[:len(dy)], gamma[:len(dy)]
	for j := range dy {
		g := float32(dy[j] * gamma[j])
		m[0][j%momentLanes] += g
		m[1][j%momentLanes] += float32(g * (x[j] - mean))
	}
}

func layerNormBackGo(dx, dy, x, gamma []float32, mean, inv, slope, rest float32) {
	dy, x, gamma = dy[:len(dx)], x[:len(dx)], gamma[:len(dx)]
	for j := range dx {
		g := float32(dy[j] * gamma[j])
		dx[j] = float32((g - float32((x[j]-mean)*slope) - rest) * inv)
	}
}

// layerNormParamsGo adds a row's part to the gradients of gamma and beta.
func layerNormParamsGo(dgamma, dbeta, dy, x []float32, mean, inv float32) {
	dbeta, dy, x = dbeta[:len(dgamma)], dy[:len(dgamma)], x[:len(dgamma)]
	for j := range dgamma {
		dgamma[j] += float32(dy[j] * float32((x[j]-mean)*inv))
		dbeta[j] += dy[j]
	}
}
