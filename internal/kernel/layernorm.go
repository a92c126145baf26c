package kernel

import "math"

// LayerNorm is the geometry of a layer normalisation (Ba, Kiros and Hinton,
// 2016) of each of some rows of Cols entries:
//
//	y = gamma * (x - mean) / sqrt(var + Eps) + beta
//
// with gamma and beta for each column; nil counts as ones, as zeros.
type LayerNorm struct {
	Rows, Cols int
	Eps        float64
}

// LayerNormForward normalises the rows of x and saves the mean and the inverse
// deviation of each. y may be x. Each slice must be as long as the geometry
// tells, here and below; anything else panics.
func LayerNormForward(p *Pool, g LayerNorm, x, gamma, beta, y, mean, invStd []float32) {
	t := layerNorms.get()
	defer t.release()
	t.setup(g, gamma)
	t.beta = orFill(beta, &t.zeros, g.Cols, 0)
	t.x, t.y = atLeast("the input", x, g.Rows*g.Cols), atLeast("the output", y, g.Rows*g.Cols)
	t.mean, t.inv = atLeast("the means", mean, g.Rows), atLeast("the inverse deviations", invStd, g.Rows)
	p.run(t.parts(), t)
}

// LayerNormBackward computes dx, the gradient of the input, and dgamma and
// dbeta, those of the parameters (both or neither may be nil), from dy, that of
// the output, and what the forward pass has saved. dx may be dy.
func LayerNormBackward(p *Pool, g LayerNorm, x, gamma, mean, invStd, dy, dx, dgamma, dbeta []float32) {
	t := layerNorms.get()
	defer t.release()
	t.setup(g, gamma)
	t.x, t.dy, t.dx = atLeast("the input", x, g.Rows*g.Cols), atLeast("dy", dy, g.Rows*g.Cols), atLeast("dx", dx, g.Rows*g.Cols)
	t.mean, t.inv = atLeast("the means", mean, g.Rows), atLeast("the inverse deviations", invStd, g.Rows)
	t.withParams = dgamma != nil
	if t.withParams {
		dgamma, dbeta = atLeast("dgamma", dgamma, g.Cols), atLeast("dbeta", dbeta, g.Cols)
		t.sums = grow(t.sums, t.parts()*2*g.Cols)
		clear(t.sums)
	}
	p.run(t.parts(), (*layerNormBackward)(t))
	if !t.withParams {
		return
	}
	copy(dgamma, t.sums)
	copy(dbeta, t.sums[g.Cols:])
	for i := 1; i < t.parts(); i++ {
		Add(dgamma, dgamma, t.sums[2*i*g.Cols:][:g.Cols])
		Add(dbeta, dbeta, t.sums[(2*i+1)*g.Cols:][:g.Cols])
	}
}

// layerNorm is a layer normalisation under way. The rows are cut in parts by
// their number alone, so that the parameters' gradients, sums over parts in
// order, do not depend on who computes.
type layerNorm struct {
	LayerNorm
	x, y, gamma, beta, mean, inv []float32
	dy, dx                       []float32
	withParams                   bool

	ones, zeros []float32
	sums        []float32 // of each part: dgamma and dbeta
}

type layerNormBackward layerNorm

var layerNorms = freeList[layerNorm]{most: 8}

func (t *layerNorm) release() {
	*t = layerNorm{ones: t.ones, zeros: t.zeros, sums: t.sums}
	layerNorms.put(t)
}

func (t *layerNorm) setup(g LayerNorm, gamma []float32) {
	t.LayerNorm = g
	t.gamma = orFill(gamma, &t.ones, g.Cols, 1)
}

// orFill returns the first n entries of x, or, if it is nil, n times the value
// from a buffer that holds nothing else.
func orFill(x []float32, buffer *[]float32, n int, value float32) []float32 {
	if x != nil {
		return atLeast("gamma or beta", x, n)
	}
	for len(*buffer) < n {
		*buffer = append(*buffer, value)
	}
	return (*buffer)[:n]
}

const layerNormParts = 16

func (t *layerNorm) rowsPer() int { return max(1, ceilDiv(t.Rows, layerNormParts)) }
func (t *layerNorm) parts() int   { return ceilDiv(t.Rows, t.rowsPer()) }

// statistics returns mean and variance of a row.
func (t *layerNorm) statistics(row []float32) (mean, variance float64) {
	b := channelBlocks{ld: t.Cols, n: 1, plane: t.Cols, rowsPer: 1, colsPer: min(t.Cols, statsBlock)}
	return b.statistics(row)
}

func (t *layerNorm) part(i int) {
	for r := i * t.rowsPer(); r < min((i+1)*t.rowsPer(), t.Rows); r++ {
		x, y := t.x[r*t.Cols:][:t.Cols], t.y[r*t.Cols:][:t.Cols]
		mean, variance := t.statistics(x)
		inv := 1 / math.Sqrt(variance+t.Eps)
		t.mean[r], t.inv[r] = float32(mean), float32(inv)
		layerNormVec(y, x, t.gamma, t.beta, t.mean[r], t.inv[r])
	}
}

func (p *layerNormBackward) part(i int) {
	t := (*layerNorm)(p)
	for r := i * t.rowsPer(); r < min((i+1)*t.rowsPer(), t.Rows); r++ {
		x, dy, dx := t.x[r*t.Cols:][:t.Cols], t.dy[r*t.Cols:][:t.Cols], t.dx[r*t.Cols:][:t.Cols]
		mean, inv := t.mean[r], t.inv[r]
		if t.withParams {
			sums := t.sums[2*i*t.Cols:][:2*t.Cols]
			layerNormParamsVec(sums[:t.Cols], sums[t.Cols:], dy, x, mean, inv)
		}
		sum, dot := 0.0, 0.0
		for lo := 0; lo < t.Cols; lo += statsBlock {
			hi := min(lo+statsBlock, t.Cols)
			var l moments
			layerNormGradVec(&l, dy[lo:hi], x[lo:hi], t.gamma[lo:hi], mean)
			sum, dot = sum+l.total(0), dot+l.total(1)
		}
		n := float64(t.Cols)
		slope := dot * float64(inv) * float64(inv) / n
		layerNormBackVec(dx, dy, x, t.gamma, mean, inv, float32(slope), float32(sum/n))
	}
}
