package kernel

// plan says how a product is cut.
type plan struct {
	kc      int // steps of k in a block, the last one excepted: depends on k alone
	rowsPer int // rows of an item, a multiple of the family's
	colsPer int // columns of an item, a multiple of a vector
}

// planFor cuts an m x n x k product for a number of goroutines: it estimates when
// the last of them would be done for some ways to cut, and takes the best.
func planFor(f *family, threads, m, n, k int) plan {
	best := plan{kc: roundUp(ceilDiv(k, ceilDiv(k, blockSteps)), 4), rowsPer: roundUp(m, f.mr())}
	best.colsPer = f.widest(best)
	if threads == 1 {
		return best
	}
	least := -1.0
	for _, parts := range []int{1, threads, 4 * threads} {
		p := plan{kc: best.kc, rowsPer: roundUp(ceilDiv(m, parts), f.mr())}
		if parts > 1 && p.rowsPer*(parts-1) >= m {
			break
		}
		most := f.widest(p)
		few := ceilDiv(n, most)
		for across := few; across <= few+2*threads; across++ {
			for _, unit := range []int{f.nr(), f.lanes} {
				p.colsPer = min(roundUp(ceilDiv(n, across), unit), most)
				if t := f.span(threads, m, n, p.rowsPer, p.colsPer); least < 0 || t < least {
					least, best = t, p
				}
			}
		}
	}
	return best
}

// holdsA says whether the rows of A of an item stay in the cache while panels of
// B pass by, and not the other way round.
func (p plan) holdsA() bool { return p.rowsPer*p.kc <= heldElems }

// widest returns the largest number of columns of an item.
func (f *family) widest(p plan) int {
	if p.holdsA() {
		return heldCols / f.nr() * f.nr()
	}
	return f.cols / f.nr() * f.nr()
}

// span estimates the time until all items are done, in vector operations per k.
func (f *family) span(threads, m, n, rows, cols int) float64 {
	whole, rest := n/cols, n%cols
	down := ceilDiv(m, rows)
	t := f.cost(rows, cols) * float64(ceilDiv(whole*down, threads))
	if rest > 0 {
		spare := whole*down%threads != 0 && down == 1
		if u := f.cost(rows, rest) * float64(ceilDiv(down, threads)); !spare {
			t += u
		}
	}
	return t
}

// cost estimates the time of an item: narrow kernels are less efficient, and the
// panels of B are packed for each item.
func (f *family) cost(rows, cols int) float64 {
	const (
		perPanel = 0.3 // vector operations that a kernel of one row costs besides its products
		packing  = 1.0 // rows that a pass over B is worth
	)
	vecs := ceilDiv(cols, f.lanes)
	panels := ceilDiv(vecs, f.vecs)
	return (float64(vecs) + perPanel*float64(panels)) * (float64(rows) + packing)
}
