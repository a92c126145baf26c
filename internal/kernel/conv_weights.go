package kernel

// The gradient of the weights is a sum over images and pixels:
//
//	dw[o,c,p,q] = sum over n, i, j of dy[n,o,i,j] * x[n, c, i*StrideH - PadH + p*DilH, ...]
//
// as a sweep: rows are the taps (c,p,q), steps the pixels, columns the output
// channels. The batch is cut into parts by its size alone, and the parts' sums
// are added in order, so the result does not depend on the number of threads.

// weightGradient is the task that computes the parts' sums.
type weightGradient struct {
	ws     *Workspace
	isa    *convISA
	g      Conv
	in     int // channels of a group
	out    int
	source planes

	kernel     *sweepKernel
	line       int   // taps in a line that runs cut: the last dimension of the weights longer than 1
	lineRuns   int   // runs of a line
	rows       int   // of a tile's sums: all runs' members, and one row for the bias
	off        []int // of each image and pixel
	runs       []run // of taps
	stride     int   // bytes from tap to tap
	reach      int   // the last byte offset into the source
	pixels     int   // of an image of the output
	partImages int
	parts      int
	tiles      int
	chunks     int // tasks that share the tiles

	sums          []float32 // of each part, group and tile
	x, dy, dw, db []float32
}

const (
	maxParts  = 8       // parts of a batch, where the weights are small
	maxSums   = 1 << 21 // entries of all the parts' sums, unless one part has more
	minPixelK = 256     // pixels that are summed with a tile's sums in registers
)

func (d *weightGradient) plan(ws *Workspace, g Conv, threads int) {
	d.ws, d.isa, d.g = ws, activeConv, g
	d.in, d.out = g.CI/g.Groups, g.CO/g.Groups
	d.pixels = g.OutH() * g.OutW()
	d.tiles = ceilDiv(d.out, d.isa.wide)
	d.planTaps()

	parts := max(1, min(maxParts, maxSums/g.WeightLen()))
	d.partImages = ceilDiv(g.N, parts)
	d.parts = ceilDiv(g.N, d.partImages)
	d.chunks = max(1, min(ceilDiv(2*threads, d.parts*g.Groups), d.tiles))
	d.source.images = min(d.partImages, ceilDiv(minPixelK, d.pixels))
	d.planPixels()
	d.sums = grow(d.sums, d.parts*g.Groups*d.groupSums())
}

// groupSums returns the number of sums of a group.
func (d *weightGradient) groupSums() int { return d.isa.packedColumns(d.out) * d.rows }

// planTaps lays out the source and the runs of taps.
func (d *weightGradient) planTaps() {
	g := &d.g
	v := planes{h: g.H, w: g.W, top: g.PadH, left: g.PadW, ph: g.H + 2*g.PadH, pw: g.W + 2*g.PadW, channels: d.in}
	d.source = v
	step := [3]int{v.plane(), g.DilH * v.pw, g.DilW} // from tap to tap in each dimension
	dims := [3]int{d.in, g.KH, g.KW}
	last := 2
	for last > 0 && dims[last] == 1 {
		last--
	}
	d.line = dims[last]
	dims[last] = 1
	lines := dims[0] * dims[1] * dims[2]
	k := d.isa.bestKernel(lines, d.line)
	d.kernel, d.stride, d.lineRuns = k, 4*step[last], ceilDiv(d.line, k.members)
	d.runs = d.runs[:0]
	for c := range dims[0] {
		for p := range dims[1] {
			base := c*step[0] + p*step[1]
			for r := range d.lineRuns {
				d.runs = append(d.runs, run{
					base: 4*base + k.runStart(r, d.line)*d.stride,
					out:  len(d.runs) * k.members,
				})
			}
		}
	}
	end := d.runs[len(d.runs)-1]
	d.rows = end.out + k.members + 1
	for len(d.runs)%k.groups != 0 {
		d.runs = append(d.runs, end)
	}
	d.reach = end.base + (k.members-1)*d.stride
}

// planPixels lists the offsets of the pixels of a block of images.
func (d *weightGradient) planPixels() {
	v, g := &d.source, &d.g
	d.off = d.off[:0]
	for n := range v.images {
		for i := range g.OutH() {
			for j := range g.OutW() {
				d.off = append(d.off, 4*(n*v.pitch()+i*g.StrideH*v.pw+j*g.StrideW))
			}
		}
	}
	d.reach += d.off[len(d.off)-1]
	v.slack = max(0, d.reach/4+1-v.images*v.pitch())
}

// run computes the gradient that was planned.
func (d *weightGradient) run(p *Pool) {
	p.run(d.parts*d.g.Groups*d.chunks, d)
	p.run(d.g.Groups*d.tiles, (*weightReduction)(d))
	d.x, d.dy, d.dw, d.db = nil, nil, nil, nil
}

// sumsOf returns a tile's sums of a part of the batch.
func (d *weightGradient) sumsOf(part, group int, t channelTile) []float32 {
	first := (part*d.g.Groups+group)*d.groupSums() + t.first*d.rows
	return d.sums[first:][:d.rows*t.width]
}

// part sums one part of the batch for some tiles of channels of one group.
func (d *weightGradient) part(i int) {
	chunk := i % d.chunks
	i /= d.chunks
	group, part := i%d.g.Groups, i/d.g.Groups
	end := min((part+1)*d.partImages, d.g.N)
	s := d.ws.take()
	defer d.ws.give(s)
	for first := part * d.partImages; first < end; first += d.source.images {
		images := min(d.source.images, end-first)
		src := s.view(d.isa, &d.source, d.x, d.g.Groups, group, first, images)
		for tile := chunk * d.tiles / d.chunks; tile < (chunk+1)*d.tiles/d.chunks; tile++ {
			t := d.isa.channelTile(tile, d.out)
			d.addBlock(s, src, d.sumsOf(part, group, t), group, first, images, t, first > part*d.partImages)
		}
	}
}

// addBlock adds the products of a block of images to a tile's sums, or sets them.
func (d *weightGradient) addBlock(s *convScratch, src, sums []float32, group, first, images int, t channelTile, add bool) {
	steps := images * d.pixels
	s.b = grow(s.b, steps*t.width)
	for n := range images {
		dy := d.dy[(((first+n)*d.g.Groups+group)*d.out+t.first)*d.pixels:]
		d.isa.transposeTo(s.b[n*d.pixels*t.width:], t.width, dy, d.pixels, t.n, d.pixels, t.width, nil)
	}
	d.isa.sweep(&s.sweep, d.kernel, t.width, src, s.b, sums, d.off[:steps], d.stride, 1, d.runs, d.reach, add)
	if d.db != nil {
		bias := sums[(d.rows-1)*t.width:]
		if !add {
			clear(bias)
		}
		d.isa.sumRows(bias, s.b, steps)
	}
}

// weightReduction is the task that adds the parts' sums and writes them out; a
// part is one tile of one group.
type weightReduction weightGradient

func (r *weightReduction) part(i int) {
	d := (*weightGradient)(r)
	t := d.isa.channelTile(i%d.tiles, d.out)
	group := i / d.tiles
	sums := d.sumsOf(0, group, t)
	used := len(sums)
	if d.db == nil {
		used -= t.width
	}
	for part := 1; part < d.parts; part++ {
		Add(sums[:used], sums[:used], d.sumsOf(part, group, t)[:used])
	}
	first := group*d.out + t.first
	if d.db != nil {
		copy(d.db[first:first+t.n], sums[(d.rows-1)*t.width:])
	}
	d.compact(sums, t.width)
	taps := d.in * d.g.KH * d.g.KW
	d.isa.transposeTo(d.dw[first*taps:(first+t.n)*taps], taps, sums, t.width, taps, t.n, taps, nil)
}

// compact moves the rows of the sums to where their taps are in the weights,
// where runs overlap or go beyond a line.
func (d *weightGradient) compact(sums []float32, width int) {
	m := d.kernel.members
	if d.lineRuns*m == d.line {
		return
	}
	row := 0
	for line := range d.in * d.g.KH * d.g.KW / d.line {
		for tap := range d.line {
			r := min(tap/m, d.lineRuns-1)
			from := (line*d.lineRuns+r)*m + tap - d.kernel.runStart(r, d.line)
			copy(sums[row*width:(row+1)*width], sums[from*width:])
			row++
		}
	}
}
