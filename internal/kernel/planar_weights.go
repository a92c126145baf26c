package kernel

// planarGradient is the gradient of the weights of a depthwise convolution; a
// part is some channels. The images are summed in order: as many as the geometry
// tells in float32, in lanes, and these sums in float64.
type planarGradient struct {
	ws     *Workspace
	g      Conv
	source planes
	off    []int // of each tap, in whole blocks

	images   int // summed in float32
	channels int // of a part

	x, dy, dw, db []float32
}

// maxLaneSum is how many products are summed in a lane, unless one plane has more.
const maxLaneSum = 1 << 10

func (d *planarGradient) plan(ws *Workspace, g Conv) {
	d.ws, d.g = ws, g
	d.source = planes{
		h: g.H, w: g.W, top: g.PadH, left: g.PadW, ph: g.H + 2*g.PadH, pw: ceilDiv(g.W+2*g.PadW, g.StrideW),
		split: g.StrideW, channels: 1, images: 1, slack: vectorSlack,
	}
	d.off = d.off[:0]
	for p := range g.KH {
		for q := range g.KW {
			d.off = append(d.off, d.source.at(p*g.DilH, q*g.DilW))
		}
	}
	for len(d.off)%tapBlock != 0 {
		d.off = append(d.off, d.off[0])
	}
	d.channels = max(1, min(planarPlanes, g.CI/planarPlanes))
	d.images = max(1, maxLaneSum/(g.OutH()*ceilDiv(g.OutW(), tapLanes)))
}

func (d *planarGradient) run(p *Pool) {
	p.run(ceilDiv(d.g.CI, d.channels), d)
	d.x, d.dy, d.dw, d.db = nil, nil, nil, nil
}

func (d *planarGradient) part(i int) {
	s := d.ws.take()
	defer d.ws.give(s)
	lo := i * d.channels
	channels := min(d.channels, d.g.CI-lo)
	lanes, taps := len(d.off)*tapLanes, d.g.KH*d.g.KW
	s.m, s.moments = grow(s.m, channels*lanes), grow(s.moments, channels)
	s.sums = grow(s.sums, channels*(taps+1)) // of each tap, and of the bias
	clear(s.sums)
	for first := 0; first < d.g.N; first += d.images {
		clear(s.m)
		clear(s.moments)
		for n := first; n < min(first+d.images, d.g.N); n++ {
			for c := range channels { // side by side in memory
				d.addPlane(s, s.m[c*lanes:], &s.moments[c], n*d.g.CI+lo+c)
			}
		}
		for c := range channels {
			sums := s.sums[c*(taps+1):]
			for k := range taps {
				for _, v := range s.m[c*lanes+k*tapLanes:][:tapLanes] {
					sums[k] += float64(v)
				}
			}
			sums[taps] += s.moments[c].total(0)
		}
	}
	for c := range channels {
		d.write(lo+c, s.sums[c*(taps+1):][:taps+1])
	}
}

// write writes the gradients of a channel: of its weights, and the last of sums
// of its bias.
func (d *planarGradient) write(c int, sums []float64) {
	taps := len(sums) - 1
	for k, sum := range sums[:taps] {
		d.dw[c*taps+k] = float32(sum)
	}
	if d.db != nil {
		d.db[c] = float32(sums[taps])
	}
}

// addPlane adds the products of one plane, and its gradients for the bias.
func (d *planarGradient) addPlane(s *convScratch, lanes []float32, bias *moments, plane int) {
	oh, ow := d.g.OutH(), d.g.OutW()
	x := s.padded.load(activeConv, d.source, d.x[plane*d.g.H*d.g.W:], 1, 0)
	dy := d.dy[plane*oh*ow:][:oh*ow]
	for k := 0; k < len(d.off); k += tapBlock {
		tapDotsVec(lanes[k*tapLanes:], dy, ow, x, d.g.StrideH*d.source.pw, (*[tapBlock]int)(d.off[k:]), oh, ow)
	}
	if d.db != nil {
		sumPlanesVec(bias, dy, ow, oh, ow)
	}
}
