package kernel

// winogradGradient is the gradient of the weights. The batch is taken in chunks
// whose size depends on the geometry alone. For each chunk, rows of tiles are
// transformed in parallel, and then the 16 products over the tiles are computed
// in parallel, each added to what the chunks before have left: the order of the
// sums does not depend on who computes.
type winogradGradient struct {
	tiling
	ws           *Workspace
	per          int // rows of tiles of a chunk
	first, count int // the chunk
	tiles        int // of the chunk
	v, m         []float32
	du           []float32 // 16 matrices in x outLine
	taps         []float32

	x, dy, dw, db []float32
}

const (
	gradientTiles = 512 // tiles of a chunk
	gradientRows  = 4   // rows of tiles of a part
)

func (d *winogradGradient) run(p *Pool, ws *Workspace, g Conv) {
	d.ws = ws
	d.set(activeConv, g, false)
	d.per = min(d.rows, max(1, gradientTiles/d.tw))
	d.v, d.m = grow(d.v, 16*d.per*d.tw*d.inLine), grow(d.m, 16*d.per*d.tw*d.outLine)
	d.du, d.taps = grow(d.du, 16*d.in*d.outLine), grow(d.taps, 9*d.in*d.outLine)
	clear(d.db)
	for d.first = 0; d.first < d.rows; d.first += d.per {
		d.count = min(d.per, d.rows-d.first)
		d.tiles = d.count * d.tw
		p.run(ceilDiv(d.count, gradientRows), (*winogradTransforms)(d))
		p.run(16, (*winogradProducts)(d))
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
		d.transformGradient(s, d.first+r, d.m[r*d.tw*d.outLine:])
	}
}

// transformGradient transforms the gradient of the results of a row of tiles.
func (d *winogradGradient) transformGradient(s *convScratch, row int, m []float32) {
	pitch := 2 * d.tw * d.outLine
	s.out = grow(s.out, 2*pitch)
	for r := range 2 {
		d.loadLine(s.out[r*pitch:][:pitch], d.outLine, d.dy, row/d.th, d.out, row%d.th*2+r, d.oh, d.ow, 0)
	}
	for j := range d.tw {
		d.isa.sandwich(winogradAT, m[j*d.outLine:], 4*d.tiles*d.outLine, d.tiles*d.outLine, s.out[2*j*d.outLine:], pitch, d.outLine, d.outLine)
	}
}

// winogradProducts is the task of the products over the tiles of a chunk.
type winogradProducts winogradGradient

// inner is the matrix that holds, for each tile, the sum of its gradients.
const inner = 5

func (p *winogradProducts) part(k int) {
	d := (*winogradGradient)(p)
	v, m := d.v[k*d.tiles*d.inLine:], d.m[k*d.tiles*d.outLine:]
	du := d.du[k*d.in*d.outLine:]
	beta := float32(1)
	if d.first == 0 {
		beta = 0
	}
	Gemm(nil, true, false, d.in, d.outLine, d.tiles, 1, v, d.inLine, m, d.outLine, beta, du, d.outLine)
	if k == inner && d.db != nil {
		for r := 0; r < d.tiles; r += sumRows {
			columnSumsVec(d.db, m[r*d.outLine:], d.outLine, min(sumRows, d.tiles-r))
		}
	}
}

// part writes the gradient of the weights of some source channels.
func (d *winogradGradient) part(i int) {
	lo := i * weightChannels
	hi := min(lo+weightChannels, d.in)
	for c := lo; c < hi; c++ {
		d.isa.sandwich(winogradGT, d.taps[9*c*d.outLine:], 3*d.outLine, d.outLine, d.du[c*d.outLine:], 4*d.in*d.outLine, d.in*d.outLine, d.outLine)
	}
	d.isa.transposeTo(d.dw[9*lo:], 9*d.in, d.taps[9*lo*d.outLine:], d.outLine, 9*(hi-lo), d.out, 9*(hi-lo), nil)
}
