package kernel

import "unsafe"

func (t *combineAll) part(i int) {
	rows, cols := t.shape()
	across := ceilDiv(t.cols, cols)
	row, lo := i/across*rows, i%across*cols
	c := combineTiles{combineAll: t, row: row, rows: min(row+rows, t.rows), lo: lo, col: lo, hi: min(lo+cols, t.cols)}
	if t.pack {
		c.packed()
	} else {
		c.direct()
	}
	if t.stream {
		storeFence()
	}
}

// combineTiles walks over the tiles of a part.
type combineTiles struct {
	*combineAll
	row, rows   int // the row, and the end of them
	lo, col, hi int // columns of the part, and the one at hand
}

// combineTile is a tile: where it begins in the outputs and in the inputs, and its
// columns.
type combineTile struct{ at, off, n int }

// next returns the next tile, and one without columns at the end. Where results
// are to bypass the caches, the first tile of a row ends at a cache line's end.
func (c *combineTiles) next() combineTile {
	if c.row == c.rows {
		return combineTile{}
	}
	t := combineTile{at: c.row*c.ldd + c.col, off: c.row*c.ldx + c.col, n: min(c.tile, c.hi-c.col)}
	if c.stream {
		if lead := untilAligned(c.dst[0], t.at); lead > 0 {
			t.n = min(t.n, lead)
		}
	}
	if c.col += t.n; c.col == c.hi {
		c.row, c.col = c.row+1, c.lo
	}
	return t
}

// direct makes all sums of one tile after another, from the inputs in place.
func (c *combineTiles) direct() {
	for t := c.next(); t.n > 0; t = c.next() {
		for g := range c.groups {
			c.make(&c.groups[g], c.inputs, t, nil)
		}
	}
}

// packed makes all sums of one tile after another, from a copy, while the next
// tile is copied.
func (c *combineTiles) packed() {
	m := combineMemories.get()
	m.prepare(c.combineAll)
	t := c.next()
	k := packing{to: m.tiles[0], xs: c.xs, tile: t}
	k.finish()
	for b := 0; t.n > 0; b = 1 - b {
		after := c.next()
		k = packing{to: m.tiles[1-b], xs: c.xs, tile: after}
		for lo := 0; lo < t.n; lo += packedPiece {
			piece := combineTile{at: t.at + lo, off: lo, n: min(packedPiece, t.n-lo)}
			for g := range c.groups {
				c.make(&c.groups[g], m.inputs[b], piece, &k)
			}
		}
		k.finish()
		t = after
	}
	combineMemories.put(m)
}

// make makes a tile of a group's sums.
func (t *combineAll) make(g *combineGroup, inputs [][]float32, tile combineTile, k *packing) {
	dst := t.dst[g.first : g.first+g.sums]
	if g.inputs == g.end {
		for _, d := range dst {
			clear(d[tile.at : tile.at+tile.n])
		}
		return
	}
	inputs = inputs[g.inputs:g.end]
	var c carry
	if k != nil && g.sums == 4 {
		c = k.carry(tile.n, len(inputs))
	}
	combineVec(dst, tile.at, t.weights[g.weights:], inputs, tile.off, tile.n, t.stream, c)
}

// untilAligned returns the number of elements from one on to the next one at an
// address that is a multiple of 64.
func untilAligned(x []float32, at int) int {
	return int(-uintptr(unsafe.Pointer(&x[at])) % 64 / 4)
}
