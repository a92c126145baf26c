package kernel

// descent is a step of SGD that a product makes with itself as the gradient: as soon as
// a tile of it is computed, in the first-level cache, the tile is applied and forgotten.
// To compute a tile takes longer than to bring its weights and velocities from memory,
// which are asked for tilesAhead tiles before.
type descent struct {
	w, velocity []float32 // as C; no velocity without momentum
	step        SGDStep
}

const tilesAhead = 2

// GemmSGD makes a step of SGD with the gradient op(A)*op(B), which is m x n as are w
// and velocity, all without gaps. It gives the same bits as
//
//	Gemm(p, transA, transB, m, n, k, 1, a, lda, b, ldb, 0, grad, n)
//	SGD(w, velocity, grad, s)
//
// but the gradient does not go through memory. velocity may be nil if Momentum is 0.
func GemmSGD(p *Pool, transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, w, velocity []float32, s SGDStep) {
	checkSizes(m, n, k)
	checkOperand("A", transA, m, k, a, lda)
	checkOperand("B", transB, k, n, b, ldb)
	checkLen("sgd of a product", "the weights", m*n, len(w))
	if s.Momentum != 0 {
		checkLen("sgd of a product", "the velocity", m*n, len(velocity))
	}
	if m == 0 || n == 0 {
		return
	}
	g := gemms.get()
	defer g.release()
	g.m, g.n, g.k, g.alpha = m, n, k, 1
	g.a, g.b = matrix{a, lda, !transA}, matrix{b, ldb, transB}
	g.descent = descent{w, velocity, s}
	if k > 0 && k <= blockSteps {
		g.run(p)
		return
	}
	g.descendByRows(p)
}

// descendByRows makes the step where a tile is not computed at once: some rows of the
// gradient at a time.
func (g *gemm) descendByRows(p *Pool) {
	const elems, least = 1 << 16, 16
	m := itemMemories.get()
	defer itemMemories.put(m)
	d := &g.descent
	rows := min(g.m, max(elems/g.n, least))
	for r := 0; r < g.m; r += rows {
		rows = min(rows, g.m-r)
		m.c = grow(m.c, rows*g.n)
		a := g.a
		if a.inner {
			a.data = a.data[r*a.ld:]
		} else if g.k > 0 {
			a.data = a.data[r:]
		}
		Gemm(p, !a.inner, g.b.inner, rows, g.n, g.k, 1, a.data, a.ld, g.b.data, g.b.ld, 0, m.c, g.n)
		d.apply(r*g.n, m.c)
	}
}

// apply makes the step for elements that follow one another.
func (d *descent) apply(at int, grad []float32) {
	var velocity []float32
	if d.step.Momentum != 0 {
		velocity = d.velocity[at : at+len(grad)]
	}
	SGD(d.w[at:at+len(grad)], velocity, grad, d.step)
}

// descends says whether the product is a gradient that is applied.
func (g *gemm) descends() bool { return g.descent.w != nil }

// holdsA is plan.holdsA, but weights are best passed along their rows.
func (g *gemm) holdsA() bool { return !g.descends() && g.plan.holdsA() }

// planDescent cuts the product in strips of columns.
func (g *gemm) planDescent(threads int) {
	strips := max(ceilDiv(g.n, g.f.cols), min(threads, ceilDiv(g.n, g.f.nr())))
	g.rowsPer, g.colsPer = roundUp(g.m, g.f.mr()), roundUp(ceilDiv(g.n, strips), g.f.nr())
}

// descend computes and applies the tile.
func (it *item) descend(w *itemMemory, r, c int) {
	t, f := &it.tile, it.f
	w.c = grow(w.c, f.mr()*f.nr())
	t.c, t.ldc = w.c, f.nr()
	it.askAhead(r, c)
	f.multiply(t)
	at := r*it.n + c
	if f.tiles.plain != nil && t.cols == f.nr() {
		f.tiles.apply(&it.descent, at, t, it.n)
		return
	}
	for i := range t.rows {
		it.descent.apply(at+i*it.n, w.c[i*t.ldc:i*t.ldc+t.cols])
	}
}

// askAhead points the tile to the weights and velocities of one that comes soon.
func (it *item) askAhead(r, c int) {
	t, nr := &it.tile, it.f.nr()
	across := ceilDiv(it.c1-it.c0, nr)
	ahead := (c-it.c0)/nr + tilesAhead
	r, c = r+ahead/across*it.f.mr(), it.c0+ahead%across*nr
	t.next, t.beside, t.nextStep = nil, nil, it.n
	if r >= it.r1 || t.keep != nil {
		return
	}
	t.next = it.descent.w[r*it.n+c:]
	if t.beside = t.next; it.descent.step.Momentum != 0 {
		t.beside = it.descent.velocity[r*it.n+c:]
	}
}

// sgdTiles are the steps of SGD for rows of a tile, as wide as those of a family's
// kernels; ld is the distance of the rows of weights and velocities.
type sgdTiles struct {
	plain              func(w, grad *float32, ld, rows int, scale, decay, lr float32)
	momentum, nesterov func(w, velocity, grad *float32, ld, rows int, scale, decay, momentum, lr float32)
}

// apply checks the bounds: the kernels get raw pointers.
func (k *sgdTiles) apply(d *descent, at int, t *tile, ld int) {
	last := (t.rows-1)*ld + t.cols - 1
	w, s := d.w[at:], &d.step
	_, _ = w[last], t.c[t.rows*t.cols-1]
	if s.Momentum == 0 {
		k.plain(&w[0], &t.c[0], ld, t.rows, s.Scale, s.Decay, s.LR)
		return
	}
	v := d.velocity[at:]
	_ = v[last]
	step := k.momentum
	if s.Nesterov {
		step = k.nesterov
	}
	step(&w[0], &v[0], &t.c[0], ld, t.rows, s.Scale, s.Decay, s.Momentum, s.LR)
}
