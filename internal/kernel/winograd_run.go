package kernel

// tiling is a correlation with kernels of 3 x 3 seen as tiles: in source
// channels of h x w with padding before, out result channels of oh x ow. Lines of
// channels end with zeros that fill the last vector.
type tiling struct {
	isa       *convISA
	in, out   int
	inLine    int // entries of a line of source channels, and
	outLine   int // of result channels
	h, w      int
	oh, ow    int
	top, left int
	th, tw    int // tiles of an image
	rows      int // rows of tiles of the batch
}

// entries returns the width of the band of source rows that a row of tiles meets.
func (t *tiling) entries() int { return 2*t.tw + 2 }

func (t *tiling) set(isa *convISA, g Conv, backward bool) {
	*t = tiling{isa: isa, in: g.CI, out: g.CO, h: g.H, w: g.W, oh: g.OutH(), ow: g.OutW(), top: g.PadH, left: g.PadW}
	if backward {
		t.in, t.out, t.h, t.w, t.oh, t.ow = t.out, t.in, t.oh, t.ow, t.h, t.w
		t.top, t.left = 2-t.top, 2-t.left
	}
	t.inLine, t.outLine = roundUp(t.in, sandwichLanes), roundUp(t.out, sandwichLanes)
	t.th, t.tw = ceilDiv(t.oh, 2), ceilDiv(t.ow, 2)
	t.rows = g.N * t.th
}

// winograd is a convolution or the gradient of its input; a part is a block of
// rows of tiles.
type winograd struct {
	tiling
	ws       *Workspace
	backward bool
	per      int       // rows of tiles of a block
	taps     []float32 // weights, a line of result channels for each source channel and tap
	u        []float32 // transformed weights: 16 matrices in x outLine

	src, weights, dst, bias []float32
	floor                   float32
}

const (
	winogradSize   = 1 << 19 // entries of a block's transforms, about
	winogradTiles  = 64      // tiles of a block, at least
	weightChannels = 8       // source channels whose weights are transformed in a part
)

func (c *winograd) run(p *Pool, ws *Workspace, g Conv, backward bool) {
	c.ws, c.backward = ws, backward
	c.set(activeConv, g, backward)
	tiles := max(winogradTiles, winogradSize/(16*(c.inLine+c.outLine)))
	c.per = max(1, min(tiles/c.tw, ceilDiv(c.rows, 2*p.Threads())))
	c.taps, c.u = grow(c.taps, 9*c.in*c.outLine), grow(c.u, 16*c.in*c.outLine)
	p.run(ceilDiv(c.in, weightChannels), (*winogradWeights)(c))
	p.run(ceilDiv(c.rows, c.per), c)
	c.src, c.weights, c.dst, c.bias = nil, nil, nil, nil
}

// winogradWeights is the task that transforms the weights.
type winogradWeights winograd

func (p *winogradWeights) part(i int) {
	c := (*winograd)(p)
	lo := i * weightChannels
	hi := min(lo+weightChannels, c.in)
	if !c.backward {
		c.isa.transposeTo(c.taps[9*lo*c.outLine:], c.outLine, c.weights[9*lo:], 9*c.in, c.out, 9*(hi-lo), c.outLine, nil)
	}
	for ch := lo; ch < hi; ch++ {
		taps := c.taps[9*ch*c.outLine:]
		if c.backward {
			c.isa.transposeTo(taps, c.outLine, c.weights[9*ch*c.out:], 9, c.out, 9, c.outLine, nil)
		}
		c.isa.sandwich(winogradG, c.u[ch*c.outLine:], 4*c.in*c.outLine, c.in*c.outLine, taps, 3*c.outLine, c.outLine, c.outLine)
	}
}

// matrix returns the transformed weights number i. Flipped kernels, which the
// gradient of the input needs, have the first and the last row and column of
// their transform exchanged.
func (c *winograd) matrix(i int) []float32 {
	if c.backward {
		flip := [4]int{3, 1, 2, 0}
		i = 4*flip[i/4] + flip[i%4]
	}
	return c.u[i*c.in*c.outLine:][:c.in*c.outLine]
}

func (c *winograd) part(i int) {
	first := i * c.per
	rows := min(c.per, c.rows-first)
	tiles := rows * c.tw
	s := c.ws.take()
	defer c.ws.give(s)
	s.v, s.m = grow(s.v, 16*tiles*c.inLine), grow(s.m, 16*tiles*c.outLine)
	for r := range rows {
		c.transformRow(s, c.src, first+r, r > 0, s.v[r*c.tw*c.inLine:], tiles)
	}
	for k := range 16 {
		v, m := s.v[k*tiles*c.inLine:], s.m[k*tiles*c.outLine:]
		Gemm(nil, false, false, tiles, c.outLine, c.in, 1, v, c.inLine, c.matrix(k), c.outLine, 0, m, c.outLine)
	}
	for r := range rows {
		c.writeRow(s, first+r, s.m[r*c.tw*c.outLine:], tiles)
	}
}

// transformRow transforms the entries of a row of tiles, to the same place in
// each of 16 matrices of the given number of tiles. follows tells that the row
// before is in the band.
func (t *tiling) transformRow(s *convScratch, src []float32, row int, follows bool, v []float32, tiles int) {
	pitch := t.entries() * t.inLine
	image, y := row/t.th, row%t.th*2-t.top
	s.band = grow(s.band, 4*pitch)
	from := 0
	if follows && row%t.th > 0 {
		copy(s.band[:2*pitch], s.band[2*pitch:])
		from = 2
	}
	for r := from; r < 4; r++ {
		t.loadLine(s.band[r*pitch:][:pitch], t.inLine, src, image, t.in, y+r, t.h, t.w, t.left)
	}
	for j := range t.tw {
		t.isa.sandwich(winogradB, v[j*t.inLine:], 4*tiles*t.inLine, tiles*t.inLine, s.band[2*j*t.inLine:], pitch, t.inLine, t.inLine)
	}
}

// loadLine writes line y of all channels of an image, planes of h x w, as lines of
// channels, after some columns of padding; what is outside is zero.
func (t *tiling) loadLine(dst []float32, line int, src []float32, image, channels, y, h, w, left int) {
	if y < 0 || y >= h {
		clear(dst)
		return
	}
	n := min(w, len(dst)/line-left)
	clear(dst[:left*line])
	t.isa.transposeTo(dst[left*line:], line, src[image*channels*h*w+y*w:], h*w, channels, n, line, nil)
	clear(dst[(left+n)*line:])
}

// writeRow transforms the results of a row of tiles and writes them.
func (c *winograd) writeRow(s *convScratch, row int, m []float32, tiles int) {
	pitch := 2 * c.tw * c.outLine
	s.band = grow(s.band, 2*pitch)
	for j := range c.tw {
		c.isa.sandwich(winogradA, s.band[2*j*c.outLine:], pitch, c.outLine, m[j*c.outLine:], 4*tiles*c.outLine, tiles*c.outLine, c.outLine)
	}
	image, y := row/c.th, row%c.th*2
	var e *epilogue
	if c.bias != nil {
		s.epilogue = epilogue{c.bias, c.floor}
		e = &s.epilogue
	}
	plane := c.oh * c.ow
	dst := c.dst[image*c.out*plane+y*c.ow:]
	if y+1 < c.oh && c.ow == 2*c.tw { // both lines in one piece
		c.isa.transposeTo(dst, plane, s.band, c.outLine, 2*c.ow, c.out, 2*c.ow, e)
		return
	}
	for r := range min(2, c.oh-y) {
		c.isa.transposeTo(dst[r*c.ow:], plane, s.band[r*pitch:], c.outLine, c.ow, c.out, c.ow, e)
	}
}
