package kernel

// planarPlanes is the least number of source planes of a part.
const planarPlanes = 8

// maxTapSums bounds the vectors times taps of one call of an assembly kernel,
// which cannot be preempted, to a fraction of a millisecond. It is a variable for
// the tests.
var maxTapSums = 1 << 18

// groupsOfPart returns how many groups, of one image or of several, a part takes.
func (c *planar) groupsOfPart() int { return ceilDiv(planarPlanes, c.in) }

func (c *planar) run(p *Pool) {
	if c.backward {
		p.run(c.g.Groups*c.out, (*planarPacking)(c))
	}
	p.run(ceilDiv(c.g.N*c.g.Groups, c.groupsOfPart()), c)
	c.src, c.weights, c.dst, c.bias = nil, nil, nil, nil
}

func (c *planar) part(i int) {
	s := c.ws.take()
	defer c.ws.give(s)
	per := c.groupsOfPart()
	for k := i * per; k < min((i+1)*per, c.g.N*c.g.Groups); k++ {
		src := s.padded.load(activeConv, c.source, c.src[k*c.in*c.source.h*c.source.w:], 1, 0)
		for o := range c.out {
			c.channel(s, src, k%c.g.Groups*c.out+o, c.dst[(k*c.out+o)*c.h*c.w:][:c.h*c.w])
		}
	}
}

// channel computes a plane of one of the result channels.
func (c *planar) channel(s *convScratch, src []float32, channel int, dst []float32) {
	if len(c.cols.phases) == 1 {
		for i := range c.phases {
			f := &c.phases[i]
			c.phase(f, src, channel, dst[f.rows.first*c.w:], f.rows.step*c.w)
		}
		return
	}
	// pieces of a phase of the rows lie side by side
	step := len(c.cols.phases)
	width := c.cols.phases[0].count // the largest
	size := c.rows.phases[0].count * width
	s.m = grow(s.m, step*size)
	for i := range c.rows.phases {
		for j := range step {
			c.phase(&c.phases[i*step+j], src, channel, s.m[j*size:][:size], width)
		}
		rows := &c.rows.phases[i]
		joinColumns(dst[rows.first*c.w:], rows.step*c.w, s.m, width, size, step, rows.count, c.w)
	}
}

// phase computes the results of one phase, in rows ld apart.
func (c *planar) phase(f *planarPhase, src []float32, channel int, dst []float32, ld int) {
	n := f.cols.count
	if len(f.off) == 0 {
		for r := range f.rows.count {
			clear(dst[r*ld:][:n])
		}
		return
	}
	start, floor := float32(0), noFloor
	if c.bias != nil {
		start, floor = c.bias[channel], c.floor
	}
	pitch := f.rows.stride * c.source.pw
	per := max(1, maxTapSums/(len(f.off)*ceilDiv(n, tapLanes)))
	for r := 0; r < f.rows.count; r += per {
		tapSumsVec(dst[r*ld:], ld, src[r*pitch:], pitch, c.taps(channel)[f.first:], f.off, min(per, f.rows.count-r), n, start, floor)
	}
}

// joinColumns sets column j of rows of n entries to the columns j/step of the
// pieces j%step, matrices of size entries with the given width.
func joinColumns(dst []float32, ldd int, pieces []float32, width, size, step, rows, n int) {
	if step == 2 {
		joinPairsVec(dst, ldd, pieces, pieces[size:], width, rows, n)
		return
	}
	for r := range rows {
		out := dst[r*ldd:][:n]
		for i := range step {
			piece := pieces[i*size+r*width:]
			for j := i; j < n; j += step {
				out[j] = piece[j/step]
			}
		}
	}
}

// splitColumns is the inverse of joinColumns for rows that follow one another,
// for columns first, first+1, ... of the pieces together.
func splitColumns(pieces []float32, width, size, step, first int, src []float32, rows, n int) {
	piece := func(j int) []float32 { return pieces[j%step*size+j/step:] }
	if step == 2 {
		splitPairsVec(piece(first), piece(first+1), width, src, rows, n)
		return
	}
	for i := range min(step, n) {
		out := piece(first + i)
		for r := range rows {
			row := src[r*n:][:n]
			for j := i; j < n; j += step {
				out[r*width+j/step] = row[j]
			}
		}
	}
}
