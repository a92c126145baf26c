package kernel

// Where a group has few result channels, as in depthwise convolutions and in the
// gradient of a colour image, vectors over channels would be nearly empty. There
// a convolution and the gradient of its input are computed plane by plane, as
// sums over channels and taps of the padded source plane, shifted, times a
// weight. Vectors run over the columns: where a convolution skips columns of the
// source, they are kept apart by their remainder by the stride, and where the
// gradient falls into phases, these are joined when they are written.

func (g Conv) depthwise() bool { return g.Groups > 1 && g.Groups == g.CI && g.CI == g.CO }

// planarCost is how much longer an entry takes in a vector of columns than in
// one of channels. It is a variable for the tests.
var planarCost = 2.0

// planarFits tells whether the convolution or the gradient of its input is
// computed plane by plane: where vectors of columns are so much better filled.
func planarFits(g Conv, backward bool) bool {
	channels, columns := g.CO/g.Groups, g.OutW()
	if backward {
		channels, columns = g.CI/g.Groups, ceilDiv(g.W, g.StrideW)
	}
	const lanes = 16
	return g.depthwise() || planarCost*float64(channels*roundUp(columns, lanes)) <= float64(roundUp(channels, lanes)*columns)
}

// planar is a convolution or the gradient of its input; a part is some groups of
// some images.
type planar struct {
	ws         *Workspace
	g          Conv
	backward   bool
	in, out    int // channels of a group, of source and result
	rows, cols axes
	source     planes
	h, w       int // of the result
	phases     []planarPhase
	packed     []float32

	src, weights, dst []float32
	bias              []float32 // nil: no epilogue
	floor             float32
}

// planarPhase is one grid of results: a phase of the rows and one of the columns.
type planarPhase struct {
	rows, cols *axis
	off        []int // of each channel and tap, into the source
	first      int   // where its weights start among those of a result channel
}

// vectorSlack is how many entries are read beyond the last of a plane: each tap
// reads whole vectors, of which the rest is not used.
const vectorSlack = 15

func (c *planar) plan(ws *Workspace, g Conv, backward bool) {
	c.ws, c.g, c.backward = ws, g, backward
	oh, ow := g.OutH(), g.OutW()
	if backward {
		c.in, c.out, c.h, c.w = g.CO/g.Groups, g.CI/g.Groups, g.H, g.W
		c.rows.backward(g.H, oh, g.KH, g.StrideH, g.PadH, g.DilH)
		c.cols.backward(g.W, ow, g.KW, g.StrideW, g.PadW, g.DilW)
		c.source = planes{h: oh, w: ow, split: 1}
	} else {
		c.in, c.out, c.h, c.w = g.CI/g.Groups, g.CO/g.Groups, oh, ow
		c.rows.forward(g.H, oh, g.KH, g.StrideH, g.PadH, g.DilH)
		c.cols.forward(g.W, ow, g.KW, g.StrideW, g.PadW, g.DilW)
		c.source = planes{h: g.H, w: g.W, split: g.StrideW}
	}
	v := &c.source
	v.top, v.left, v.ph, v.pw = c.rows.before, c.cols.before, c.rows.size, ceilDiv(c.cols.size, v.split)
	v.channels, v.images, v.slack = c.in, 1, vectorSlack
	c.planPhases()
}

func (c *planar) planPhases() {
	n := len(c.rows.phases) * len(c.cols.phases)
	if cap(c.phases) < n {
		c.phases = make([]planarPhase, n)
	}
	c.phases = c.phases[:n]
	first := 0
	for i := range c.phases {
		f := &c.phases[i]
		f.rows, f.cols = &c.rows.phases[i/len(c.cols.phases)], &c.cols.phases[i%len(c.cols.phases)]
		f.first, f.off = first, f.off[:0]
		for ch := range c.in {
			for _, y := range f.rows.at {
				for _, x := range f.cols.at {
					f.off = append(f.off, ch*c.source.plane()+c.source.at(y, x))
				}
			}
		}
		first += len(f.off)
	}
	if c.backward {
		c.packed = grow(c.packed, c.g.Groups*c.out*c.in*c.g.KH*c.g.KW)
	}
}

// taps returns the weights of a result channel of all groups, phase after phase.
func (c *planar) taps(channel int) []float32 {
	n := c.in * c.g.KH * c.g.KW
	if c.backward {
		return c.packed[channel*n:][:n]
	}
	return c.weights[channel*n:][:n]
}

// planarPacking is the task that packs the weights for the gradient; a part is
// one result channel.
type planarPacking planar

func (p *planarPacking) part(channel int) {
	c := (*planar)(p)
	group, i := channel/c.out, channel%c.out
	dst := c.taps(channel)
	kernel := c.g.KH * c.g.KW
	for _, f := range c.phases {
		for o := range c.in {
			src := c.weights[((group*c.in+o)*c.out+i)*kernel:][:kernel]
			for _, y := range f.rows.taps {
				for _, x := range f.cols.taps {
					dst[0] = src[y*c.g.KW+x]
					dst = dst[1:]
				}
			}
		}
	}
}
