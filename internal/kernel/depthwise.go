package kernel

// Depthwise convolutions, with as many groups as channels, have no sum over
// channels that vectors could run over. They are computed plane by plane, as
// sums over taps of the padded plane, shifted, times a weight. Rows that the
// stride skips are skipped; columns are computed for a stride of 1, and results
// are taken from, or gradients put at, every StrideW-th of them.

func (g Conv) depthwise() bool { return g.Groups > 1 && g.Groups == g.CI && g.CI == g.CO }

// depthwise is a depthwise convolution or a gradient of it. A part of the first
// two is some planes, one of the gradient of the weights is a channel.
type depthwise struct {
	Conv
	ws   *Workspace
	relu bool
	off  []int // where each tap meets a padded plane

	x, w, bias, y, dw, db []float32
}

const depthwisePlanes = 8

// width returns how far apart the rows of a padded plane stand: each tap may
// read whole vectors from it, of which the rest is zero or not used.
func (d *depthwise) width() int {
	return max(d.W+2*d.PadW, d.columns()+(d.KW-1)*d.DilW)
}

// pitch returns how far apart the rows of results stand among the padded rows.
func (d *depthwise) pitch() int { return d.StrideH * d.width() }

// columns returns the number of columns that are computed: whole vectors, since
// what was written under a mask cannot be read again at once.
func (d *depthwise) columns() int { return roundUp((d.OutW()-1)*d.StrideW+1, 16) }

// buffers returns cleared memory for a padded plane and for the results of one.
func (d *depthwise) buffers(s *convScratch) (padded, results []float32) {
	s.v, s.m = grow(s.v, (d.H+2*d.PadH)*d.width()), grow(s.m, d.OutH()*d.pitch())
	clear(s.v)
	clear(s.m)
	return s.v, s.m
}

// interior returns a padded plane from its first entry inside on.
func (d *depthwise) interior(padded []float32) []float32 { return padded[d.PadH*d.width()+d.PadW:] }

// shifted returns a padded plane from the first entry that tap i meets on.
func (d *depthwise) shifted(padded []float32, i int) []float32 {
	return padded[i/d.KW*d.DilH*d.width()+i%d.KW*d.DilW:]
}

func (d *depthwise) loadPlane(padded []float32, plane int) {
	activeConv.spread(d.interior(padded), d.width(), 0, d.x[plane*d.H*d.W:], d.W, d.H, 1)
}

func (d *depthwise) loadResults(results []float32, plane int) {
	oh, ow := d.OutH(), d.OutW()
	from := d.y[plane*oh*ow:][:oh*ow]
	if d.StrideW == 1 {
		activeConv.spread(results, d.pitch(), 0, from, ow, oh, 1)
		return
	}
	for i := range oh {
		row := results[i*d.pitch():]
		for j, v := range from[i*ow : (i+1)*ow] {
			row[j*d.StrideW] = v
		}
	}
}

// direct returns how many rows of results can be written where they belong: what
// the last vector of a row writes beyond it is overwritten by the next rows, and
// does not reach beyond the plane.
func (d *depthwise) direct() int {
	spare := d.OutH()*d.OutW() - d.columns()
	if d.StrideW > 1 || spare < 0 {
		return 0
	}
	return min(spare/d.OutW()+1, d.OutH())
}

// storeResults writes a plane of results from a row on.
func (d *depthwise) storeResults(results []float32, plane, from int) {
	oh, ow := d.OutH(), d.OutW()
	for i := from; i < oh; i++ {
		row := results[i*d.pitch():]
		out := d.y[(plane*oh+i)*ow:][:ow]
		if d.StrideW == 1 {
			copy(out, row)
		} else {
			for j := range out {
				out[j] = row[j*d.StrideW]
			}
		}
		if d.relu {
			reluVec(out, out)
		}
	}
}

// forward computes the convolution. With flip, the taps are met in the opposite
// order.
func (d *depthwise) forward(p *Pool, flip bool) {
	taps := d.KH * d.KW
	for k := range taps {
		at := k
		if flip {
			at = taps - 1 - k
		}
		d.off = append(d.off, at/d.KW*d.DilH*d.width()+at%d.KW*d.DilW)
	}
	p.run(ceilDiv(d.N*d.CI, depthwisePlanes), d)
	d.finish()
}

// finish drops what the computation refers to and keeps its memory.
func (d *depthwise) finish() { *d = depthwise{off: d.off[:0]} }

// start sets what a computation needs.
func (d *depthwise) start(ws *Workspace, g Conv, x, w, y []float32) {
	d.Conv, d.ws, d.x, d.w, d.y = g, ws, x, w, y
}

// backwardInput computes the gradient of the input: with a stride of 1 as a
// convolution of dy with flipped kernels, else by adding up what each tap passes
// back.
func (d *depthwise) backwardInput(p *Pool, ws *Workspace, g Conv, dy, w, dx []float32) {
	t := g
	t.H, t.W = g.OutH(), g.OutW()
	t.PadH, t.PadW = (g.KH-1)*g.DilH-g.PadH, (g.KW-1)*g.DilW-g.PadW
	if g.StrideH == 1 && g.StrideW == 1 && t.PadH >= 0 && t.PadW >= 0 {
		d.start(ws, t, dy, w, dx)
		d.forward(p, true)
		return
	}
	d.start(ws, g, dx, w, dy)
	p.run(ceilDiv(g.N*g.CI, depthwisePlanes), (*depthwiseInput)(d))
	d.finish()
}

// part computes some planes of the convolution.
func (d *depthwise) part(i int) {
	s := d.ws.take()
	defer d.ws.give(s)
	padded, results := d.buffers(s)
	taps := d.KH * d.KW
	for plane := i * depthwisePlanes; plane < min((i+1)*depthwisePlanes, d.N*d.CI); plane++ {
		c := plane % d.CI
		d.loadPlane(padded, plane)
		start := float32(0)
		if d.bias != nil {
			start = d.bias[c]
		}
		direct := d.direct()
		if direct > 0 {
			y := d.y[plane*d.OutH()*d.OutW():][:d.OutH()*d.OutW()]
			tapSumsVec(y, d.OutW(), padded, d.pitch(), d.w[c*taps:], d.off, direct, d.columns(), start)
			if d.relu {
				reluVec(y[:direct*d.OutW()], y[:direct*d.OutW()])
			}
		}
		if rest := d.OutH() - direct; rest > 0 {
			at := direct * d.pitch()
			tapSumsVec(results[at:], d.pitch(), padded[at:], d.pitch(), d.w[c*taps:], d.off, rest, d.columns(), start)
			d.storeResults(results, plane, direct)
		}
	}
}

// depthwiseInput is the task of the gradient of the input: y is dy, x is dx.
type depthwiseInput depthwise

func (t *depthwiseInput) part(i int) {
	d := (*depthwise)(t)
	s := d.ws.take()
	defer d.ws.give(s)
	padded, results := d.buffers(s)
	taps := d.KH * d.KW
	for plane := i * depthwisePlanes; plane < min((i+1)*depthwisePlanes, d.N*d.CI); plane++ {
		c := plane % d.CI
		d.loadResults(results, plane)
		clear(padded)
		for k, w := range d.w[c*taps : (c+1)*taps] {
			axpyPlanesVec(d.shifted(padded, k), results, d.pitch(), d.OutH(), d.columns(), w)
		}
		inside := d.interior(padded)
		for r := range d.H {
			copy(d.x[(plane*d.H+r)*d.W:][:d.W], inside[r*d.width():])
		}
	}
}

// depthwiseWeights is the task of the gradient of the weights: y is dy. The
// images are summed in order in float64.
type depthwiseWeights depthwise

func (t *depthwiseWeights) part(c int) {
	d := (*depthwise)(t)
	s := d.ws.take()
	defer d.ws.give(s)
	padded, results := d.buffers(s)
	taps := d.KH * d.KW
	s.sums = grow(s.sums, taps+1)
	clear(s.sums)
	for n := range d.N {
		d.loadPlane(padded, n*d.CI+c)
		d.loadResults(results, n*d.CI+c)
		for k := range taps {
			var m moments
			dotPlanesVec(&m, results, d.shifted(padded, k), d.pitch(), d.OutH(), d.columns())
			s.sums[k] += m.total(0)
		}
		if d.db != nil {
			var m moments
			sumPlanesVec(&m, results, d.pitch(), d.OutH(), d.columns())
			s.sums[taps] += m.total(0)
		}
	}
	for k, sum := range s.sums[:taps] {
		d.dw[c*taps+k] = float32(sum)
	}
	if d.db != nil {
		d.db[c] = float32(s.sums[taps])
	}
}

// The kernels in Go, over rows of n entries.

func tapSumsGo(y []float32, ldy int, x []float32, ldx int, w []float32, off []int, rows, n int, bias float32) {
	for r := range rows {
		out := y[r*ldy:][:n]
		for j := range out {
			out[j] = bias
		}
		for k, at := range off {
			v := w[k]
			for j, u := range x[r*ldx+at:][:n] {
				out[j] += float32(v * u)
			}
		}
	}
}

func axpyPlanesGo(y, x []float32, ld, rows, n int, w float32) {
	for r := range rows {
		out := y[r*ld:][:n]
		for j, v := range x[r*ld:][:n] {
			out[j] += float32(w * v)
		}
	}
}

func dotPlanesGo(m *moments, a, b []float32, ld, rows, n int) {
	for r := range rows {
		in := b[r*ld:][:n]
		for j, v := range a[r*ld:][:n] {
			m[0][j%momentLanes] += float32(v * in[j])
		}
	}
}
