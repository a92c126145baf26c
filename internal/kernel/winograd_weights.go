package kernel

// winogradGradient is the gradient of the weights. The batch is taken in chunks
// whose size depends on the geometry alone. For each chunk, rows of tiles are
// transformed in parallel, and then the products over the tiles are computed
// in parallel, each added to what the chunks before have left: the order of the
// sums does not depend on who computes.
type winogradGradient struct {
	tiling
	ws           *Workspace
	per          int // rows of tiles of a chunk
	first, count int // the chunk
	tiles        int // of the chunk
	v, m         []float32
	du           []float32 // matrices in x outLine
	taps         []float32
	sums         []float32 // of the gradients of each row of tiles, if db is wanted

	x, dy, dw, db []float32
}

const (
	gradientResults = 2048 // of a chunk
	gradientRows    = 4    // rows of tiles of a part
)

func (d *winogradGradient) run(p *Pool, ws *Workspace, g Conv) {
	d.ws = ws
	d.set(activeConv, g, false)
	products := d.form.products()
	d.per = min(d.rows, max(1, gradientResults/(d.form.tile*d.form.tile)/d.tw))
	d.v, d.m = grow(d.v, products*d.per*d.tw*d.inLine), grow(d.m, products*d.per*d.tw*d.outLine)
	d.du, d.taps = grow(d.du, products*d.in*d.outLine), grow(d.taps, 9*d.in*d.outLine)
	if d.db != nil {
		clear(d.db)
		d.sums = grow(d.sums, d.per*d.outLine)
	}
	for d.first = 0; d.first < d.rows; d.first += d.per {
		d.count = min(d.per, d.rows-d.first)
		d.tiles = d.count * d.tw
		p.run(ceilDiv(d.count, gradientRows), (*winogradTransforms)(d))
		p.run(products, (*winogradProducts)(d))
		if d.db != nil {
			columnSumsVec(d.db, d.sums, d.outLine, d.count)
		}
	}
	p.run(ceilDiv(d.in, weightChannels), d)
	d.x, d.dy, d.dw, d.db = nil, nil, nil, nil
}

// winogradTransforms is the task that transforms some rows of tiles of a chunk.
type winogradTransforms winogradGradient

func (p *winogradTransforms) part(i int) {
	d := (*winogradGradient)(p)
	s := d.ws.take()
	defer d.ws.give(s)
	lo := i * gradientRows
	for r := lo; r < min(lo+gradientRows, d.count); r++ {
		d.transformRow(s, d.x, d.first+r, r > lo, d.v[r*d.tw*d.inLine:], d.tiles)
		d.transformGradient(s, r, d.m[r*d.tw*d.outLine:])
	}
}

// transformGradient transforms the gradient of the results of row r of tiles of the
// chunk.
func (d *winogradGradient) transformGradient(s *convScratch, r int, m []float32) {
	tile, line, row := d.form.tile, d.outLine, d.first+r
	pitch := tile * d.tw * line
	s.out = grow(s.out, tile*pitch)
	for y := range tile {
		d.loadLine(s.out[y*pitch:][:pitch], line, d.dy, row/d.th, d.out, row%d.th*tile+y, d.oh, d.ow, 0)
	}
	for j := range d.tw {
		d.isa.sandwich(d.form, winogradAT, m[j*line:], d.form.side*d.tiles*line, d.tiles*line, s.out[tile*j*line:], pitch, line, line)
	}
	if d.db != nil {
		ColumnSums(d.sums[r*line:][:line], s.out, line, tile*tile*d.tw)
	}
}

// winogradProducts is the task of the products over the tiles of a chunk.
type winogradProducts winogradGradient

func (p *winogradProducts) part(k int) {
	d := (*winogradGradient)(p)
	v, m := d.v[k*d.tiles*d.inLine:], d.m[k*d.tiles*d.outLine:]
	du := d.du[k*d.in*d.outLine:]
	beta := float32(1)
	if d.first == 0 {
		beta = 0
	}
	Gemm(nil, true, false, d.in, d.outLine, d.tiles, 1, v, d.inLine, m, d.outLine, beta, du, d.outLine)
}

// part writes the gradient of the weights of some source channels.
func (d *winogradGradient) part(i int) {
	lo := i * weightChannels
	hi := min(lo+weightChannels, d.in)
	for c := lo; c < hi; c++ {
		d.isa.sandwich(d.form, winogradGT, d.taps[9*c*d.outLine:], 3*d.outLine, d.outLine, d.du[c*d.outLine:], d.form.side*d.in*d.outLine, d.in*d.outLine, d.outLine)
	}
	d.isa.transposeTo(d.dw[9*lo:], 9*d.in, d.taps[9*lo*d.outLine:], d.outLine, 9*(hi-lo), d.out, 9*(hi-lo), nil)
}
