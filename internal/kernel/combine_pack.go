package kernel

import "unsafe"

// combineMemory holds copies of two tiles: the one that sums are made of, and the
// next one.
type combineMemory struct {
	tiles  [2][]float32
	inputs [2][][]float32 // combineAll.inputs there
}

var combineMemories = freeList[combineMemory]{most: 16}

func (m *combineMemory) prepare(t *combineAll) {
	for b := range m.tiles {
		m.tiles[b] = grow(m.tiles[b], len(t.xs)*packedStride)
		m.inputs[b] = grow(m.inputs[b], len(t.inputs))
		for i, x := range t.index {
			m.inputs[b][i] = m.tiles[b][x*packedStride:][:packedTile]
		}
	}
}

// packing is the copying of a tile under way.
type packing struct {
	to   []float32
	xs   [][]float32
	tile combineTile
	x    int // the input at hand: those before are done
	done int // elements of it that are done
}

// carry is what a kernel copies besides its work, which then takes no time of its
// own; len(from) is len(to), a multiple of 16. What lies ahead bytes further on
// will be copied next and is prefetched.
type carry struct {
	from, to []float32
	ahead    int
}

// carry takes as much as a kernel for four sums can do while it works on n columns
// of so many inputs: 16 elements an input and group of 64 columns.
func (k *packing) carry(n, inputs int) (c carry) {
	if k.tile.n == 0 || k.x == len(k.xs) {
		return c
	}
	c.from, c.to = k.rest()
	whole := min(n/64*inputs*16, len(c.from)/16*16)
	if whole == 0 {
		return carry{}
	}
	c.from, c.to = c.from[:whole], c.to[:whole]
	c.ahead = k.ahead(c.from)
	if k.done += whole; k.tile.n-k.done < 16 {
		k.finishInput()
	}
	return c
}

// rest returns what is left of the input at hand.
func (k *packing) rest() (from, to []float32) {
	n := k.tile.n - k.done
	return k.xs[k.x][k.tile.off+k.done:][:n], k.to[k.x*packedStride+k.done:][:n]
}

// ahead returns the distance to the next input, or behind the last one to the
// tile that follows.
func (k *packing) ahead(from []float32) int {
	next := k.xs[0][k.tile.off+k.tile.n:]
	if k.x+1 < len(k.xs) {
		next = k.xs[k.x+1][k.tile.off:]
	}
	if len(next) == 0 {
		return 0
	}
	return int(uintptr(unsafe.Pointer(&next[0])) - uintptr(unsafe.Pointer(&from[0])))
}

func (k *packing) finishInput() {
	from, to := k.rest()
	copy(to, from)
	k.x, k.done = k.x+1, 0
}

// finish copies what is left.
func (k *packing) finish() {
	for k.tile.n > 0 && k.x < len(k.xs) {
		k.finishInput()
	}
}
