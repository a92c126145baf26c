package kernel

import "slices"

// The convolution and the gradient of its input are both correlations: each
// entry of the result is a sum over channels and taps of the source. Where the
// convolution has a stride, the gradient falls into phases, one for each
// remainder of the row and of the column by the stride: in phase r, the row
// r + StrideH*i gets contributions from the taps p with
//
//	r + PadH - p*DilH = StrideH*e(p), from row i + e(p) of dy.

// axis is one phase of one dimension of a correlation.
type axis struct {
	first, step, count int   // results first, first+step, ...
	stride             int   // in the source, from one result to the next
	taps               []int // indices into the kernel
	at                 []int // for each tap, where in the padded source result 0 meets it
}

// axes is one dimension of a correlation.
type axes struct {
	phases       []axis
	before, size int // padding before the source, and the padded size
}

// add returns a new phase that reuses the memory of an earlier one.
func (a *axes) add() *axis {
	if len(a.phases) < cap(a.phases) {
		a.phases = a.phases[:len(a.phases)+1]
	} else {
		a.phases = append(a.phases, axis{})
	}
	x := &a.phases[len(a.phases)-1]
	x.taps, x.at = x.taps[:0], x.at[:0]
	return x
}

// forward sets the one phase of a convolution.
func (a *axes) forward(in, out, kernel, stride, pad, dil int) {
	a.phases = a.phases[:0]
	a.before, a.size = pad, in+2*pad
	x := a.add()
	x.first, x.step, x.count, x.stride = 0, 1, out, stride
	for p := range kernel {
		x.taps, x.at = append(x.taps, p), append(x.at, p*dil)
	}
}

// backward sets the phases of the gradient of a convolution's input.
func (a *axes) backward(in, out, kernel, stride, pad, dil int) {
	a.phases = a.phases[:0]
	a.before = 0
	for r := range min(stride, in) {
		x := a.add()
		x.first, x.step, x.count, x.stride = r, stride, ceilDiv(in-r, stride), 1
		for p := range kernel {
			if e := r + pad - p*dil; e%stride == 0 {
				x.taps, x.at = append(x.taps, p), append(x.at, e/stride)
				a.before = max(a.before, -e/stride)
			}
		}
	}
	a.size = a.before + out
	for i := range a.phases {
		x := &a.phases[i]
		for t := range x.at {
			x.at[t] += a.before
			a.size = max(a.size, x.at[t]+x.count)
		}
	}
}

// phase is one grid of results: a phase of the rows and one of the columns.
type phase struct {
	rows, cols *axis
	kernel     *sweepKernel
	off        []int // of each channel and tap
	runs       []run // of pixels, image after image
	lineRuns   int   // runs of a line
	reach      int   // the last byte offset into the source
	packed     int   // where its weights start
}

func (f *phase) taps() int { return len(f.rows.taps) * len(f.cols.taps) }

// correlation is a batch of correlations, as a task in parts: some images by
// one group by some of its tiles of result channels.
type correlation struct {
	ws         *Workspace
	isa        *convISA
	g          Conv
	backward   bool
	in, out    int // channels of a group, of source and result
	rows, cols axes
	source     planes
	h, w       int  // of the result
	pitch      int  // columns of a line of results: runs may go beyond the w-th
	sparse     bool // some phase has no taps
	phases     []phase
	tiles      int // of result channels of a group
	chunks     int // parts that share the tiles
	packed     []float32

	src, weights, dst []float32
	bias              []float32 // nil: no epilogue
	floor             float32
}

// minPixels is how many results of a channel are computed with the same
// weights at hand, where images are small.
const minPixels = 96

// plan prepares everything that the geometry tells.
func (c *correlation) plan(ws *Workspace, g Conv, backward bool, threads int) {
	c.ws, c.isa, c.g, c.backward = ws, activeConv, g, backward
	oh, ow := g.OutH(), g.OutW()
	h, w := g.H, g.W
	if backward {
		c.in, c.out, c.h, c.w = g.CO/g.Groups, g.CI/g.Groups, h, w
		c.rows.backward(h, oh, g.KH, g.StrideH, g.PadH, g.DilH)
		c.cols.backward(w, ow, g.KW, g.StrideW, g.PadW, g.DilW)
		h, w = oh, ow
	} else {
		c.in, c.out, c.h, c.w = g.CI/g.Groups, g.CO/g.Groups, oh, ow
		c.rows.forward(h, oh, g.KH, g.StrideH, g.PadH, g.DilH)
		c.cols.forward(w, ow, g.KW, g.StrideW, g.PadW, g.DilW)
	}
	c.source = planes{h: h, w: w, top: c.rows.before, left: c.cols.before, ph: c.rows.size, pw: c.cols.size, channels: c.in}
	c.source.images = c.blockSize()
	c.tiles = ceilDiv(c.out, c.isa.wide)
	parts := ceilDiv(g.N, c.source.images) * g.Groups
	c.chunks = max(1, min(ceilDiv(2*threads, parts), c.tiles))

	if n := len(c.rows.phases) * len(c.cols.phases); cap(c.phases) < n {
		c.phases = make([]phase, n)
	} else {
		c.phases = c.phases[:n]
	}
	packed := 0
	c.pitch, c.sparse = c.w, false
	for i := range c.phases {
		f := &c.phases[i]
		f.rows, f.cols = &c.rows.phases[i/len(c.cols.phases)], &c.cols.phases[i%len(c.cols.phases)]
		f.packed = packed
		packed += g.Groups * c.isa.packedColumns(c.out) * c.in * f.taps()
		c.planSums(f)
	}
	for i := range c.phases {
		c.planRuns(&c.phases[i])
	}
	c.packed = grow(c.packed, packed)
}

// blockSize returns how many images to take together: enough for the runs to
// fill the register tiles where the images are small.
func (c *correlation) blockSize() int {
	x, y := &c.rows.phases[0], &c.cols.phases[0]
	least := ceilDiv(minPixels, x.count*y.count)
	best, cost := 1, 0
	for b := least; b < least+4 && b <= c.g.N; b++ {
		k := c.isa.bestKernel(b*x.count, y.count)
		runs := roundUp(b*x.count*ceilDiv(y.count, k.members), k.groups)
		if n := runs * k.members * 64 / b; best < least || n < cost {
			best, cost = b, n
		}
	}
	return min(best, c.g.N)
}

// planSums prepares what a phase sums, and the tile that does.
func (c *correlation) planSums(f *phase) {
	v := &c.source
	rows, cols := f.rows, f.cols
	f.off = f.off[:0]
	for ch := range c.in {
		for _, i := range rows.at {
			for _, j := range cols.at {
				f.off = append(f.off, 4*(ch*v.plane()+i*v.pw+j))
			}
		}
	}
	f.kernel = c.isa.bestKernel(v.images*rows.count, cols.count)
	c.pitch = max(c.pitch, cols.first+(f.kernel.members-1)*cols.step+1)
	c.sparse = c.sparse || len(f.off) == 0
}

// planRuns lists the runs of a phase.
func (c *correlation) planRuns(f *phase) {
	v, k := &c.source, f.kernel
	rows, cols := f.rows, f.cols
	f.lineRuns = ceilDiv(cols.count, k.members)
	f.runs = f.runs[:0]
	for n := range v.images {
		for i := range rows.count {
			for r := range f.lineRuns {
				j := k.runStart(r, cols.count)
				f.runs = append(f.runs, run{
					base: 4 * (n*v.pitch() + i*rows.stride*v.pw + j*cols.stride),
					out:  (n*c.h+rows.first+i*rows.step)*c.pitch + cols.first + j*cols.step,
				})
			}
		}
	}
	last := f.runs[len(f.runs)-1]
	for len(f.runs)%k.groups != 0 {
		f.runs = append(f.runs, last)
	}
	f.reach = last.base + 4*(k.members-1)*cols.stride
	if len(f.off) > 0 {
		f.reach += slices.Max(f.off)
	}
	v.slack = max(v.slack, f.reach/4+1-v.images*v.pitch())
}
