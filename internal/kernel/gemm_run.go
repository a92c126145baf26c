package kernel

// gemm is one product under way. The matrix is cut in items, blocks of C that
// goroutines take one after another: an item packs the columns of B that it
// needs into memory of its own and runs the rows of A past them. The panels of A,
// where they must be packed at all, are packed beforehand and shared.
//
// What stays in the second-level cache is the columns of B, all panels of which
// each panel of A meets in turn. Where the rows of A are the smaller part, it is
// they: then one panel of B after another is made in the first-level cache and
// meets all of them, so B is read once from memory and never written there.
//
// The inner dimension is cut in blocks of kc steps, the same whoever computes:
// each element of C is a sum over the block in registers, added to the sum so far.
type gemm struct {
	f           *family
	m, n, k     int
	alpha, beta float32
	a, b        matrix
	c           []float32
	ldc         int
	descent     descent // what becomes of C if it is not stored

	plan
	packA  bool // the panels of A are packed in
	shared []float32
	turned []float32 // C^T, if that is computed
	i0, i1 int       // rows of C and
	p0, p1 int       // steps of k that are now computed
}

// Gemm's operands, limits and buffers.
const (
	blockSteps = 384     // largest kc
	heldElems  = 24576   // rows times kc of A that stay in the cache: 96 KiB, 64 rows of the largest kc
	heldCols   = 1920    // largest number of columns of an item whose rows stay in the cache
	manyCols   = 1024    // C is wide: each panel of A is read often
	nextSteps  = 4       // steps of k in which a kernel asks for one row of what comes next, as gen/product.go has it
	fewMulAdds = 1 << 17 // products smaller than this stay on the caller's goroutine
)

// sharedLimit is the largest number of elements of A packed at a time; a block
// of steps of one panel is always allowed. It is a variable for the tests.
var sharedLimit = 1 << 21

func (g *gemm) run(p *Pool) {
	g.f = fastest
	if slim := g.f.narrow; slim != nil && g.n <= slim.nr() {
		g.f = slim
	}
	g.packA = g.mustPackA()
	if g.m*g.n*g.k < fewMulAdds {
		p = nil
	}
	g.plan = planFor(g.f, p.Threads(), g.m, g.n, g.k)
	if g.descends() {
		g.planDescent(p.Threads())
	}
	steps, rows := g.k, g.m
	if g.packA {
		steps, rows = sharedBlock(g.f.mr(), g.m, g.k, g.kc)
		g.shared = grow(g.shared, roundUp(rows, g.f.mr())*steps)
	}
	for g.p0 = 0; g.p0 < g.k; g.p0 += steps {
		g.p1 = min(g.p0+steps, g.k)
		for g.i0 = 0; g.i0 < g.m; g.i0 += rows {
			g.i1 = min(g.i0+rows, g.m)
			if g.packA {
				p.run(g.packParts(), (*packTask)(g))
			}
			p.run(ceilDiv(g.i1-g.i0, g.rowsPer)*ceilDiv(g.n, g.colsPer), (*itemTask)(g))
		}
	}
}

// sharedBlock returns how many steps of k (whole blocks) and rows of A to pack
// at a time.
func sharedBlock(mr, m, k, kc int) (steps, rows int) {
	rows = min(m, max(sharedLimit/kc/mr*mr, mr))
	blocks := max(sharedLimit/(roundUp(rows, mr)*kc), 1)
	return min(k, blocks*kc), rows
}

// mustPackA says whether the panels of A are packed. Rows of A serve in place,
// unless they are read so often that packing costs next to nothing. Columns of A
// are far apart and serve in place only if they are read once.
func (g *gemm) mustPackA() bool {
	switch {
	case g.n >= manyCols:
		return true
	case g.a.inner:
		return false
	}
	return g.n > g.f.nr()
}

// packTask packs panels of A.
type packTask gemm

const packPanels = 8 // panels of A in a part

func (g *gemm) packParts() int {
	return ceilDiv(g.i1-g.i0, packPanels*g.f.mr()) * ceilDiv(g.p1-g.p0, g.kc)
}

func (t *packTask) part(i int) {
	g := (*gemm)(t)
	rows := packPanels * g.f.mr()
	groups := ceilDiv(g.i1-g.i0, rows)
	p := g.p0 + i/groups*g.kc
	kc := min(g.kc, g.p1-p)
	first := g.i0 + i%groups*rows
	for r := first; r < min(first+rows, g.i1); r += g.f.mr() {
		n := min(g.f.mr(), g.i1-r)
		h := g.f.height(n)
		g.a.pack(g.sharedPanel(r, p, kc)[:kc*h], h, r, n, p, kc)
	}
}

// sharedPanel returns the memory of the panel of A from row r and step p on.
func (g *gemm) sharedPanel(r, p, kc int) []float32 {
	height := roundUp(g.i1-g.i0, g.f.mr())
	return g.shared[(p-g.p0)*height+(r-g.i0)*kc:]
}

// itemTask computes items of C.
type itemTask gemm

func (t *itemTask) part(i int) {
	g := (*gemm)(t)
	across := ceilDiv(g.n, g.colsPer)
	r := g.i0 + i/across*g.rowsPer
	c := i % across * g.colsPer
	w := itemMemories.get()
	defer itemMemories.put(w)
	it := &w.item
	it.gemm = g
	it.r0, it.r1 = r, min(r+g.rowsPer, g.i1)
	it.c0, it.c1 = c, min(c+g.colsPer, g.n)
	it.compute(w)
	*it = item{}
}

// item is the block of C in rows r0..r1 and columns c0..c1.
type item struct {
	*gemm
	r0, r1, c0, c1 int
	p, kc          int  // the steps now computed
	tail           bool // the last rows of A, too few for a kernel, are packed
	wide           int  // columns of a tile
	tile           tile
}

func (it *item) compute(w *itemMemory) {
	kc, cols := it.gemm.kc, it.c1-it.c0 // cols: of a block
	if it.holdsA() {
		cols = min(cols, it.f.nr())
	}
	if it.wide = it.f.even(cols); it.descends() {
		it.wide = it.f.nr()
	}
	w.b = grow(w.b, kc*it.f.width(cols))
	w.a = grow(w.a, kc*it.f.mr())
	t := &it.tile
	t.ldc, t.alpha, t.beta = it.ldc, it.alpha, it.beta
	for it.p = it.p0; it.p < it.p1; it.p += kc {
		it.kc = min(kc, it.p1-it.p)
		t.k, it.tail = it.kc, false
		if it.p > 0 {
			t.beta = 1
		}
		for c := it.c0; c < it.c1; c += cols {
			it.block(w, c, min(c+cols, it.c1))
		}
	}
}

// block computes columns c0 .. c1-1 of the item.
func (it *item) block(w *itemMemory, c0, c1 int) {
	t := &it.tile
	it.packColumns(w.b, c0, c1)
	for r := it.r0; r < it.r1; r += it.f.mr() {
		t.rows = min(it.f.mr(), it.r1-r)
		it.left(r, w.a)
		for c := c0; c < c1; c += it.wide {
			t.cols = min(it.wide, c1-c)
			it.right(r, c, w.b[(c-c0)*it.kc:])
			if it.descends() {
				it.descend(w, r, c)
				continue
			}
			t.c = it.c[r*it.ldc+c:]
			it.upcoming(r, c1)
			it.f.multiply(t)
		}
	}
}

// upcoming points the tile to its share of the panel of B that is read after
// column c1, if the rows of A stay in the cache: each of the last tiles before
// it asks for a part.
func (it *item) upcoming(r, c1 int) {
	t := &it.tile
	t.next, t.beside, t.nextStep = nil, nil, 0
	below := (it.r1 - 1 - r) / it.f.mr()
	if !it.holdsA() || below >= nextSteps || c1 >= it.c1 || !it.inPlace(min(it.f.nr(), it.c1-c1)) {
		return
	}
	p := it.p + (nextSteps-1-below)*(it.kc/nextSteps)
	t.next, t.nextStep = it.b.data[p*it.b.ld+c1:], it.b.ld
}

// inPlace says whether n columns of B are read where they are: the kernels read
// whole vectors.
func (it *item) inPlace(n int) bool { return !it.b.inner && n%it.f.lanes == 0 }

// packColumns packs those panels of B that cannot be read in place.
func (it *item) packColumns(buf []float32, c0, c1 int) {
	for c := c0; c < c1; c += it.wide {
		n := min(it.wide, c1-c)
		if w := it.f.width(n); !it.inPlace(n) {
			it.b.pack(buf[(c-c0)*it.kc:][:it.kc*w], w, c, n, it.p, it.kc)
		}
	}
}

// right points the tile to the panel of B from column c on. The first rows of
// the item read B in place and leave the panel behind for the rows that follow.
func (it *item) right(r, c int, panel []float32) {
	t := &it.tile
	w := it.f.width(t.cols)
	t.keep = nil
	panel = panel[:it.kc*w]
	if r > it.r0 || !it.inPlace(t.cols) {
		t.b, t.bs = panel, w
		return
	}
	t.b, t.bs = it.b.data[it.p*it.b.ld+c:], it.b.ld
	if it.r1-it.r0 > it.f.mr() {
		t.keep = panel
	}
}

// left points the tile to the rows of A from row r on.
func (it *item) left(r int, buf []float32) {
	t := &it.tile
	h := it.f.height(t.rows)
	if it.packA {
		t.a, t.ars, t.acs = it.sharedPanel(r, it.p, it.kc), 1, h
		return
	}
	if t.rows != h { // the kernel reads rows that A does not have
		if !it.tail {
			it.a.pack(buf[:it.kc*h], h, r, t.rows, it.p, it.kc)
			it.tail = true
		}
		t.a, t.ars, t.acs = buf, 1, h
		return
	}
	if x := &it.a; x.inner {
		t.a, t.ars, t.acs = x.data[r*x.ld+it.p:], x.ld, 1
	} else {
		t.a, t.ars, t.acs = x.data[it.p*x.ld+r:], 1, x.ld
	}
}
