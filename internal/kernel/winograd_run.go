package kernel

// tiling is a correlation with kernels of 3 x 3 seen as tiles: in source
// channels of h x w with padding before, out result channels of oh x ow. Lines of
// channels end with zeros that fill the last vector.
type tiling struct {
	isa       *convISA
	form      *winogradForm
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
func (t *tiling) entries() int { return t.form.tile*t.tw + 2 }

func (t *tiling) set(isa *convISA, g Conv, backward bool) {
	*t = tiling{isa: isa, in: g.CI, out: g.CO, h: g.H, w: g.W, oh: g.OutH(), ow: g.OutW(), top: g.PadH, left: g.PadW}
	if backward {
		t.in, t.out, t.h, t.w, t.oh, t.ow = t.out, t.in, t.oh, t.ow, t.h, t.w
		t.top, t.left = 2-t.top, 2-t.left
	}
	t.inLine, t.outLine = roundUp(t.in, sandwichLanes), roundUp(t.out, sandwichLanes)
	t.form = winogradFormOf(g.N, t.oh, t.ow)
	t.th, t.tw = ceilDiv(t.oh, t.form.tile), ceilDiv(t.ow, t.form.tile)
	t.rows = g.N * t.th
}

// winograd is a convolution or the gradient of its input; a part is a block of
// rows of tiles.
type winograd struct {
	tiling
	ws       *Workspace
	backward bool
	per      int       // rows of tiles of a block
	u        []float32 // transformed weights: matrices in x outLine
	of       transformed

	src, weights, dst, bias []float32
	floor                   float32
}

// transformed tells of what weights the transform is kept.
type transformed struct {
	weights uint64 // Workspace.Weights
	in, out int
	form    *winogradForm
}

const (
	winogradSize   = 1 << 19 // entries of a block's transforms, about
	winogradTiles  = 48      // tiles of a block, at least
	weightChannels = 8       // source channels whose weights are transformed in a part
)

func (c *winograd) run(p *Pool, ws *Workspace, g Conv, backward bool) {
	c.ws, c.backward = ws, backward
	c.set(activeConv, g, backward)
	tiles := max(winogradTiles, winogradSize/(c.form.products()*(c.inLine+c.outLine)))
	blocks := 1
	if p.Threads() > 1 {
		blocks = 2 * p.Threads()
	}
	c.per = max(1, min(tiles/c.tw, ceilDiv(c.rows, blocks)))
	if of := (transformed{ws.Weights, c.in, c.out, c.form}); of.weights == 0 || of != c.of {
		c.of = of
		c.u = grow(c.u, c.form.products()*c.in*c.outLine)
		p.run(ceilDiv(c.in, weightChannels), (*winogradWeights)(c))
	}
	p.run(ceilDiv(c.rows, c.per), c)
	c.src, c.weights, c.dst, c.bias = nil, nil, nil, nil
}

// winogradWeights is the task that transforms the weights of some source channels.
type winogradWeights winograd

func (p *winogradWeights) part(i int) {
	c := (*winograd)(p)
	s := c.ws.take()
	defer c.ws.give(s)
	lo := i * weightChannels
	n, line := min(weightChannels, c.in-lo), c.outLine
	s.band = grow(s.band, 9*n*line) // a line of result channels for each source channel and tap
	if !c.backward {
		c.isa.transposeTo(s.band, line, c.weights[9*lo:], 9*c.in, c.out, 9*n, line, nil)
	}
	for ch := range n {
		taps, u := s.band[9*ch*line:], c.u[(lo+ch)*line:]
		if c.backward {
			c.isa.transposeTo(taps, line, c.weights[9*(lo+ch)*c.out:], 9, c.out, 9, line, nil)
		}
		c.isa.sandwich(c.form, winogradG, u, c.form.side*c.in*line, c.in*line, taps, 3*line, line, line)
	}
}

// matrix returns the transformed weights number i: of the gradient of the input
// those of the flipped kernels.
func (c *winograd) matrix(i int) []float32 {
	if c.backward {
		i = c.form.side*c.form.flip[i/c.form.side] + c.form.flip[i%c.form.side]
	}
	return c.u[i*c.in*c.outLine:][:c.in*c.outLine]
}

func (c *winograd) part(i int) {
	first := i * c.per
	rows := min(c.per, c.rows-first)
	tiles := rows * c.tw
	s := c.ws.take()
	defer c.ws.give(s)
	s.v, s.m = grow(s.v, c.form.products()*tiles*c.inLine), grow(s.m, c.form.products()*tiles*c.outLine)
	for r := range rows {
		c.transformRow(s, c.src, first+r, r > 0, s.v[r*c.tw*c.inLine:], tiles)
	}
	for k := range c.form.products() {
		v, m := s.v[k*tiles*c.inLine:], s.m[k*tiles*c.outLine:]
		Gemm(nil, false, false, tiles, c.outLine, c.in, 1, v, c.inLine, c.matrix(k), c.outLine, 0, m, c.outLine)
	}
	for r := range rows {
		c.writeRow(s, first+r, s.m[r*c.tw*c.outLine:], tiles)
	}
}

// transformRow transforms the entries of a row of tiles, to the same place in
// each matrix of the given number of tiles. follows tells that the row before is in
// the band.
func (t *tiling) transformRow(s *convScratch, src []float32, row int, follows bool, v []float32, tiles int) {
	tile, side, line := t.form.tile, t.form.side, t.inLine
	pitch := t.entries() * line
	image, y := row/t.th, row%t.th*tile-t.top
	s.band = grow(s.band, side*pitch)
	from := 0
	if follows && row%t.th > 0 {
		from = side - tile
		copy(s.band[:from*pitch], s.band[tile*pitch:])
	}
	for r := from; r < side; r++ {
		t.loadLine(s.band[r*pitch:][:pitch], line, src, image, t.in, y+r, t.h, t.w, t.left)
	}
	for j := range t.tw {
		t.isa.sandwich(t.form, winogradB, v[j*line:], side*tiles*line, tiles*line, s.band[tile*j*line:], pitch, line, line)
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
	tile, line := c.form.tile, c.outLine
	pitch := tile * c.tw * line
	s.band = grow(s.band, tile*pitch)
	for j := range c.tw {
		c.isa.sandwich(c.form, winogradA, s.band[tile*j*line:], pitch, line, m[j*line:], c.form.side*tiles*line, tiles*line, line)
	}
	image, y := row/c.th, row%c.th*tile
	var e *epilogue
	if c.bias != nil {
		s.epilogue = epilogue{c.bias, c.floor}
		e = &s.epilogue
	}
	plane := c.oh * c.ow
	dst := c.dst[image*c.out*plane+y*c.ow:]
	if y+tile <= c.oh && c.ow == tile*c.tw { // all lines in one piece
		c.isa.transposeTo(dst, plane, s.band, line, tile*c.ow, c.out, tile*c.ow, e)
		return
	}
	for r := range min(tile, c.oh-y) {
		c.isa.transposeTo(dst[r*c.ow:], plane, s.band[r*pitch:], line, c.ow, c.out, c.ow, e)
	}
}
