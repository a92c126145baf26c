package kernel

import "fmt"

// tile is the work of one call of a micro-kernel:
//
//	C = alpha * A*B + beta*C
//
// over rows x cols elements of C. Element (i, p) of A is a[i*ars+p*acs], so that
// a panel (ars 1, acs its width) and a matrix in place serve alike; element
// (p, j) of B is b[p*bs+j]. C is not read if beta is 0.
type tile struct {
	k        int // steps of the inner dimension
	a        []float32
	ars, acs int
	b        []float32
	bs       int
	keep     []float32 // if not nil, receives B as a panel of the kernel's width
	next     []float32 // if not empty, asked for meanwhile: a row of the kernel's width for each nextSteps of k
	beside   []float32 // if not empty, asked for along with next: then the rows are those of a tile
	nextStep int       // elements from one of these rows to the next
	c        []float32
	ldc      int

	rows, cols  int
	alpha, beta float32
}

// family is a set of micro-kernels of one kind. A kernel computes
// heights[i] x lanes*v elements and stores those that the tile asks for; it may
// read A and B for all of them.
type family struct {
	name    string
	lanes   int      // elements of a vector
	vecs    int      // largest v
	heights []int    // ascending; the kernels of the last height can keep B
	cols    int      // largest number of columns of an item, so that they stay in the second-level cache
	narrow  *family  // if not nil, does better where C is no wider than its kernels
	tiles   sgdTiles // steps of SGD with a tile of nr() columns; zero if there are none
	// run runs kernel [height][v-1] on a tile whose bounds were checked.
	run func(height, vecs int, t *tile)
}

func (f *family) mr() int { return f.heights[len(f.heights)-1] }
func (f *family) nr() int { return f.lanes * f.vecs }

// height returns the smallest kernel height for some rows.
func (f *family) height(rows int) int {
	for _, h := range f.heights {
		if h >= rows {
			return h
		}
	}
	return f.mr()
}

// width returns the smallest kernel width for some columns.
func (f *family) width(cols int) int { return roundUp(cols, f.lanes) }

// even returns the width of the tiles of some columns, of which the last is not much
// narrower than the others where there are few: narrow kernels are less efficient.
func (f *family) even(cols int) int {
	if cols >= 4*f.nr() {
		return f.nr()
	}
	return f.width(ceilDiv(cols, ceilDiv(cols, f.nr())))
}

// multiply runs the kernel that fits the tile. The kernels write through raw
// pointers, so this is where every bound is checked.
func (f *family) multiply(t *tile) {
	h, w := f.height(t.rows), f.width(t.cols)
	ok := t.k > 0 && t.rows > 0 && t.rows <= h && t.cols > 0 && w <= f.nr() &&
		t.ars >= 0 && t.acs >= 0 && t.bs >= 0 && t.ldc >= 0 &&
		len(t.a) > (h-1)*t.ars+(t.k-1)*t.acs &&
		len(t.b) >= (t.k-1)*t.bs+w &&
		len(t.c) >= (t.rows-1)*t.ldc+t.cols &&
		(t.keep == nil || h == f.mr() && len(t.keep) >= t.k*w)
	if !ok {
		panic(fmt.Sprintf("kernel: gemm: %s tile %dx%dx%d out of bounds: A %d (%d, %d), B %d (%d), C %d (%d), panel %d",
			f.name, t.rows, t.cols, t.k, len(t.a), t.ars, t.acs, len(t.b), t.bs, len(t.c), t.ldc, len(t.keep)))
	}
	f.run(h, w/f.lanes, t)
}
