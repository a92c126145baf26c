package kernel

// A convolution and both of its gradients are matrix products in which one
// factor is read in place from a (padded) tensor. Row i of that factor stands
// at a base address, and step k of the sum at an offset that is the same for
// all rows, so the matrix (im2col) is never written:
//
//	C[i,j] = sum over k of X[base[i] + off[k]] * B[k,j]
//
// A sweep computes this for tiles of rows. The rows of a tile come as runs: a
// run's members are stride bytes apart in X, and step rows apart in C. Each
// entry is summed in the order of k, whatever the tile.

// run is one run of rows: where its first member starts in X, in bytes, and
// which row of C it is.
type run struct{ base, out int }

// sweep holds the arguments of a sweep kernel, which reads the fields at fixed
// offsets (gen/conv knows them) and counts tiles and next.
type sweep struct {
	steps  int      // length of the sums, at least 1
	stride int      // bytes between the members of a run
	add    int      // 0: C is overwritten, else added to
	off    *int     // of each step, in bytes into X
	b      *float32 // steps rows as wide as the kernel
	x      *float32
	c      *float32 // rows as wide as the kernel
	runs   *run     // groups for each tile
	tiles  int      // at least 1
	next   int      // byte offset into runs: a pointer must not go beyond them
	step   int      // bytes in C between the members of a run
}

// sweepKernel is a register tile: some groups of runs of members rows. Its
// two functions differ in their width, the number of columns.
type sweepKernel struct {
	members, groups int
	wide, narrow    func(*int) // given the first field of a sweep; nil: portable
}

// convISA is what the convolutions need of an instruction set.
type convISA struct {
	name           string
	wide, narrow   int // widths of the sweep kernels
	sweeps         []sweepKernel
	transpose      func(dst []float32, ldd int, src []float32, lds, rows, cols, width int, e *epilogue)
	spread         func(dst []float32, pitch, plane int, src []float32, w, rows, planes int)
	sumRows        func(acc, src []float32, rows int)
	pool2, unpool2 func(g *MaxPool, in, out []float32, choice []uint16, w, pairs int)
	winograd       [len(winogradForms)][winogradMatrixCount]sandwichKernel // nil: portable
}

var portableConv = convISA{
	name: "portable", wide: 16, narrow: 8,
	sweeps:    []sweepKernel{{members: 1, groups: 2}},
	transpose: transposePortable,
	spread:    spreadPortable,
	sumRows:   sumRowsPortable,
	pool2:     poolPairsPortable,
	unpool2:   unpoolPairsPortable,
}

// convISAs lists what this processor can run, the best last; activeConv is in use.
var (
	convISAs   = append([]*convISA{&portableConv}, nativeConvISAs()...)
	activeConv = convISAs[len(convISAs)-1]
)

// maxSweep bounds steps x tiles of one call of an assembly kernel, which
// cannot be preempted, to a fraction of a millisecond.
const maxSweep = 1 << 16

// sweep computes C for all runs, a multiple of the kernel's groups, of which the
// last is the last in C. width is one of the two widths of the instruction set,
// stride is in bytes and step in rows, reach is the largest sum base + off +
// stride*(members-1). s is scratch.
func (isa *convISA) sweep(s *sweep, k *sweepKernel, width int, x, b, c []float32, off []int, stride, step int, runs []run, reach int, add bool) {
	_ = x[reach/4]
	_ = b[len(off)*width-1]
	_ = c[(runs[len(runs)-1].out+(k.members-1)*step+1)*width-1]
	f := k.wide
	if width == isa.narrow {
		f = k.narrow
	}
	if f == nil {
		sweepPortable(width, x, b, c, off, runs, add)
		return
	}
	*s = sweep{steps: len(off), stride: stride, off: &off[0], b: &b[0], x: &x[0], c: &c[0], step: 4 * width * step}
	if add {
		s.add = 1
	}
	batch := max(1, maxSweep/len(off)) * k.groups
	for len(runs) > 0 {
		n := min(batch, len(runs))
		s.runs, s.tiles, s.next = &runs[0], n/k.groups, 0
		f(&s.steps)
		runs = runs[n:]
	}
}

// sweepPortable computes runs of one member, two of them by four columns at a
// time: what a compiler can hold in registers.
func sweepPortable(width int, x, b, c []float32, off []int, runs []run, add bool) {
	for ; len(runs) > 0; runs = runs[2:] {
		x0, x1 := x[runs[0].base/4:], x[runs[1].base/4:]
		for j := 0; j < width; j += 4 {
			c0, c1 := (*[4]float32)(c[runs[0].out*width+j:]), (*[4]float32)(c[runs[1].out*width+j:])
			var r0, r1 [4]float32
			if add {
				r0, r1 = *c0, *c1
			}
			*c0, *c1 = sweepPair(r0, r1, x0, x1, b[j:], width, off)
		}
	}
}

func sweepPair(r0, r1 [4]float32, x0, x1, b []float32, width int, off []int) (s0, s1 [4]float32) {
	a0, a1, a2, a3 := r0[0], r0[1], r0[2], r0[3]
	b0, b1, b2, b3 := r1[0], r1[1], r1[2], r1[3]
	for _, o := range off {
		u, v := x0[uint(o)/4], x1[uint(o)/4]
		w := (*[4]float32)(b)
		a0 += u * w[0]
		a1 += u * w[1]
		a2 += u * w[2]
		a3 += u * w[3]
		b0 += v * w[0]
		b1 += v * w[1]
		b2 += v * w[2]
		b3 += v * w[3]
		b = b[min(width, len(b)):]
	}
	return [4]float32{a0, a1, a2, a3}, [4]float32{b0, b1, b2, b3}
}

// bestKernel chooses the register tile that computes lines of the given
// length with the least waste, several lines at a time.
func (isa *convISA) bestKernel(lines, length int) *sweepKernel {
	var best *sweepKernel
	least := 0
	for i := range isa.sweeps {
		k := &isa.sweeps[i]
		cost := roundUp(lines*ceilDiv(length, k.members), k.groups) * k.members
		if best == nil || cost < least || cost == least && k.members*k.groups > best.members*best.groups {
			best, least = k, cost
		}
	}
	return best
}

// runStart returns where the run r of a line starts. The last run of a line
// overlaps the one before rather than to go beyond the end, unless the line is
// shorter than a run.
func (k *sweepKernel) runStart(r, length int) int {
	return max(0, min(r*k.members, length-k.members))
}

// width returns the width to compute a tile of columns with.
func (isa *convISA) width(columns int) int {
	if columns <= isa.narrow {
		return isa.narrow
	}
	return isa.wide
}

// packedColumns returns the number of columns, rounded up to those computed.
func (isa *convISA) packedColumns(columns int) int {
	full := columns / isa.wide * isa.wide
	if full == columns {
		return full
	}
	return full + isa.width(columns-full)
}
