package kernel

// A product of few rows by the transpose of a matrix of many, such as that of a batch by
// the weights of a layer, is computed the other way round:
//
//	C^T = B A^T
//
// Then the matrix of many rows is read where it lies, and only the other one is packed.
// The sums are the same to the bit: each product of two elements is, and their order.

// It pays where the few rows fill the kernels and are summed over many steps. The result
// is written twice, so it must not be large.
const (
	leastTurnedRows  = 32
	leastTurnedSteps = 256
	mostTurned       = 1 << 20 // elements of the result
)

// turns says whether the product is computed the other way round. Each goroutine packs
// what all have in common.
func (g *gemm) turns(threads int) bool {
	return g.beta == 0 && g.a.inner && g.b.inner && g.m >= leastTurnedRows && g.k >= leastTurnedSteps &&
		g.n >= 2*g.m*threads && g.m*g.n <= mostTurned
}

// turn computes the product the other way round.
func (g *gemm) turn(p *Pool) {
	c, ldc := g.c, g.ldc
	g.turned = grow(g.turned, g.m*g.n)
	g.m, g.n, g.a, g.b = g.n, g.m, g.b, g.a
	g.c, g.ldc = g.turned, g.n
	g.run(p)
	g.c, g.ldc = c, ldc
	p.run(ceilDiv(g.m, turnRows), (*turnTask)(g))
}

const turnRows = 256 // of the result the other way round, in a part

// turnTask writes parts of C.
type turnTask gemm

func (t *turnTask) part(i int) {
	r := i * turnRows
	transpose(t.c[r:], t.turned[r*t.n:], t.n, t.ldc, min(turnRows, t.m-r), t.n)
}
