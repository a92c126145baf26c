package kernel

import "math"

// batchNorm is a batch normalisation under way. A part is one channel: it is
// read once from memory, and again from a cache that is nearer.
type batchNorm struct {
	BatchNorm
	BatchNormParams
	x, residual, y []float32

	dy, dx, dresidual, dgamma, dbeta []float32
	frozen                           bool // the statistics are the running ones

	channel func(t *batchNorm, c int) // what is done to a channel
}

var batchNorms = freeList[batchNorm]{most: 8}

func (t *batchNorm) release() {
	*t = batchNorm{}
	batchNorms.put(t)
}

// params takes over what both directions have.
func (t *batchNorm) params(g BatchNorm, c BatchNormParams) {
	t.BatchNorm = g
	if c.Gamma != nil {
		t.Gamma = atLeast("gamma", c.Gamma, g.C)
	}
	if c.Beta != nil {
		t.Beta = atLeast("beta", c.Beta, g.C)
	}
	t.RunningMean, t.RunningVar = c.RunningMean, c.RunningVar
}

// running checks the running statistics.
func (t *batchNorm) running() {
	t.RunningMean = atLeast("the running means", t.RunningMean, t.C)
	t.RunningVar = atLeast("the running variances", t.RunningVar, t.C)
}

func (t *batchNorm) forward(g BatchNorm, c BatchNormParams, x, residual, y []float32) {
	t.params(g, c)
	t.x, t.y = atLeast("the input", x, g.Len()), atLeast("the output", y, g.Len())
	if residual != nil {
		t.residual = atLeast("the residual", residual, g.Len())
	}
}

func (t *batchNorm) backward(g BatchNorm, c BatchNormParams, x, y, dy, dx, dresidual, dgamma, dbeta []float32) {
	t.params(g, c)
	t.x, t.dy, t.dx = atLeast("the input", x, g.Len()), atLeast("dy", dy, g.Len()), atLeast("dx", dx, g.Len())
	if dresidual != nil {
		if !g.ReLU {
			panic("kernel: batch normalisation: the gradient of the residual is dy where there is no ReLU")
		}
		t.dresidual, t.y = atLeast("dresidual", dresidual, g.Len()), atLeast("the output", y, g.Len())
	}
	if dgamma != nil {
		t.dgamma = atLeast("dgamma", dgamma, g.C)
	}
	if dbeta != nil {
		t.dbeta = atLeast("dbeta", dbeta, g.C)
	}
}

func (t *batchNorm) gamma(c int) float64 {
	if t.Gamma == nil {
		return 1
	}
	return float64(t.Gamma[c])
}

func (t *batchNorm) beta(c int) float32 {
	if t.Beta == nil {
		return 0
	}
	return t.Beta[c]
}

// invStd returns 1/sqrt(v + Eps), or 0 for 0 as PyTorch.
func (t *batchNorm) invStd(v float64) float64 {
	if v == 0 && t.Eps == 0 {
		return 0
	}
	return 1 / math.Sqrt(v+t.Eps)
}

// Blocks of a channel: statistics are taken of pieces that stay in the
// first-level cache; the rest is cut so that no call in assembly is long.
const (
	statsBlock = 4096
	applyBlock = 1 << 15
)

// channelBlocks walks over a channel: over blocks of rows x cols entries, a row
// being a plane or a part of it, with stride ld.
type channelBlocks struct {
	base, ld, n, plane     int
	rowsPer, colsPer       int
	row, col               int
	off, rows, cols, count int // the block
}

func (t *batchNorm) blocks(c, size int) channelBlocks {
	return channelBlocks{
		base: c * t.Plane, ld: t.C * t.Plane, n: t.N, plane: t.Plane,
		rowsPer: max(1, size/t.Plane), colsPer: min(t.Plane, size),
	}
}

func (b *channelBlocks) next() bool {
	if b.row >= b.n {
		return false
	}
	b.off = b.base + b.row*b.ld + b.col
	b.rows, b.cols = min(b.rowsPer, b.n-b.row), min(b.colsPer, b.plane-b.col)
	b.count = b.rows * b.cols
	if b.col += b.cols; b.col == b.plane {
		b.col, b.row = 0, b.row+b.rows
	}
	return true
}

// statistics returns mean and variance of what b walks over, which is in x.
func (b *channelBlocks) statistics(x []float32) (mean, variance float64) {
	var l moments
	n, m2 := 0.0, 0.0
	for b.next() {
		x, count := x[b.off:], float64(b.count)
		l = moments{}
		sumPlanesVec(&l, x, b.ld, b.rows, b.cols)
		near := float32(l.total(0) / count)
		l = moments{}
		momentsVec(&l, x, b.ld, b.rows, b.cols, near)
		// near is rounded: the first moment about it corrects both results
		d := l.total(0) / count
		bm, bm2 := float64(near)+d, max(l.total(1)-d*d*count, 0)
		delta := bm - mean
		mean += delta * (count / (n + count))
		m2 += bm2 + delta*delta*(n*count/(n+count))
		n += count
	}
	return mean, m2 / n
}

// affine is what is done to the entries of a channel.
type affine struct{ mean, scale, beta float32 }

func (t *batchNorm) trainChannel(c int) {
	b := t.blocks(c, statsBlock)
	mean, variance := b.statistics(t.x)
	if m := float64(t.N * t.Plane); t.RunningMean != nil {
		t.RunningMean[c] = float32((1-t.Momentum)*float64(t.RunningMean[c]) + t.Momentum*mean)
		t.RunningVar[c] = float32((1-t.Momentum)*float64(t.RunningVar[c]) + t.Momentum*variance*m/max(m-1, 1))
	}
	inv := t.invStd(variance)
	t.Mean[c], t.InvStd[c] = float32(mean), float32(inv)
	t.apply(c, affine{float32(mean), float32(t.gamma(c) * inv), t.beta(c)})
}

func (t *batchNorm) evalChannel(c int) {
	t.apply(c, affine{t.RunningMean[c], float32(t.gamma(c) * t.invStd(float64(t.RunningVar[c]))), t.beta(c)})
}

func (t *batchNorm) apply(c int, a affine) {
	for b := t.blocks(c, applyBlock); b.next(); {
		if t.residual != nil {
			normAddVec(t.ReLU, t.y[b.off:], t.x[b.off:], t.residual[b.off:], b.ld, b.rows, b.cols, a)
		} else {
			normVec(t.ReLU, t.y[b.off:], t.x[b.off:], b.ld, b.rows, b.cols, a)
		}
	}
}

// backwardChannel computes the gradient, with M the number of entries of the
// channel, d = x - mean and g what is left of dy after ReLU:
//
//	dbeta = sum g;  dgamma = invstd * sum g d
//	dx = gamma invstd (g - d invstd^2/M sum g d - 1/M sum g)
func (t *batchNorm) backwardChannel(c int) {
	var mean float32
	var inv float64
	if t.frozen {
		mean, inv = t.RunningMean[c], t.invStd(float64(t.RunningVar[c]))
	} else {
		mean, inv = t.Mean[c], float64(t.InvStd[c])
	}
	a := affine{mean, float32(t.gamma(c) * inv), t.beta(c)}
	sum, dot := t.gradientSums(c, a)
	if t.dbeta != nil {
		t.dbeta[c] = float32(sum)
	}
	if t.dgamma != nil {
		t.dgamma[c] = float32(dot * inv)
	}
	slope, rest := 0.0, 0.0
	if !t.frozen {
		m := float64(t.N * t.Plane)
		slope, rest = dot*inv*inv/m, sum/m
	}
	g, relu := t.dy, t.ReLU
	if t.dresidual != nil {
		g, relu = t.dresidual, false
	}
	for b := t.blocks(c, applyBlock); b.next(); {
		normBackVec(relu, t.dx[b.off:], g[b.off:], t.x[b.off:], b.ld, b.rows, b.cols, a, float32(slope), float32(rest))
	}
}

// gradientSums returns the sums of g and of g*d. With a residual it writes g.
func (t *batchNorm) gradientSums(c int, a affine) (sum, dot float64) {
	var l moments
	for b := t.blocks(c, statsBlock); b.next(); {
		l = moments{}
		dy, x := t.dy[b.off:], t.x[b.off:]
		if t.dresidual != nil {
			gradMaskedVec(&l, t.dresidual[b.off:], dy, x, t.y[b.off:], b.ld, b.rows, b.cols, a)
		} else {
			gradVec(t.ReLU, &l, dy, x, b.ld, b.rows, b.cols, a)
		}
		sum += l.total(0)
		dot += l.total(1)
	}
	return sum, dot
}
