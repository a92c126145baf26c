package kernel

// run computes the correlation that was planned.
func (c *correlation) run(p *Pool) {
	p.run(len(c.phases)*c.g.Groups*c.tiles, (*weightPacking)(c))
	p.run(ceilDiv(c.g.N, c.source.images)*c.g.Groups*c.chunks, c)
	c.src, c.weights, c.dst, c.bias = nil, nil, nil, nil
}

// epilogue returns the bias and the least value that make the results of a
// convolution max(floor, result + bias); a nil bias means that there is nothing
// to do.
func (ws *Workspace) epilogue(channels int, bias []float32, relu bool) ([]float32, float32) {
	floor := noFloor
	if relu {
		floor = 0
	}
	if bias == nil && relu {
		if len(ws.zeros) < channels {
			ws.zeros = make([]float32, channels)
		}
		bias = ws.zeros
	}
	if bias != nil {
		bias = atLeast("the bias", bias, channels)
	}
	return bias, floor
}

// channelTile is some result channels of a group that are computed together.
type channelTile struct{ first, n, width int }

func (isa *convISA) channelTile(i, channels int) channelTile {
	first := i * isa.wide
	n := min(isa.wide, channels-first)
	return channelTile{first, n, isa.width(n)}
}

// weightsOf returns where the packed weights of a tile are kept: a row for
// each channel and tap of the source.
func (c *correlation) weightsOf(f *phase, group int, t channelTile) []float32 {
	steps := len(f.off)
	return c.packed[f.packed+(group*c.isa.packedColumns(c.out)+t.first)*steps:][:steps*t.width]
}

// weightPacking is the task that packs the weights; a part is one tile of one
// group and phase.
type weightPacking correlation

func (p *weightPacking) part(i int) {
	c := (*correlation)(p)
	t := c.isa.channelTile(i%c.tiles, c.out)
	i /= c.tiles
	group, f := i%c.g.Groups, &c.phases[i/c.g.Groups]
	dst := c.weightsOf(f, group, t)
	switch kernel := c.g.KH * c.g.KW; {
	case len(f.off) == 0:
	case !c.backward:
		src := c.weights[(group*c.out+t.first)*len(f.off):]
		c.isa.transposeTo(dst, t.width, src, len(f.off), t.n, len(f.off), t.width, nil)
	case f.taps() == kernel:
		for o := range c.in {
			src := c.weights[((group*c.in+o)*c.out+t.first)*kernel:]
			c.isa.transposeTo(dst[o*kernel*t.width:], t.width, src, kernel, t.n, kernel, t.width, nil)
		}
	default:
		c.packSomeTaps(dst, f, group, t)
	}
}

// packSomeTaps packs the weights of the taps that belong to a phase.
func (c *correlation) packSomeTaps(dst []float32, f *phase, group int, t channelTile) {
	s := c.ws.take()
	defer c.ws.give(s)
	kernel := c.g.KH * c.g.KW
	s.b = grow(s.b, kernel*t.width)
	for o := range c.in {
		src := c.weights[((group*c.in+o)*c.out+t.first)*kernel:]
		c.isa.transposeTo(s.b, t.width, src, kernel, t.n, kernel, t.width, nil)
		for _, y := range f.rows.taps {
			for _, x := range f.cols.taps {
				copy(dst[:t.width], s.b[(y*c.g.KW+x)*t.width:])
				dst = dst[t.width:]
			}
		}
	}
}

// part computes some tiles of channels of one group of a block of images.
func (c *correlation) part(i int) {
	chunk := i % c.chunks
	i /= c.chunks
	group, first := i%c.g.Groups, i/c.g.Groups*c.source.images
	images := min(c.source.images, c.g.N-first)
	s := c.ws.take()
	defer c.ws.give(s)
	src := s.view(c.isa, &c.source, c.src, c.g.Groups, group, first, images)
	for tile := chunk * c.tiles / c.chunks; tile < (chunk+1)*c.tiles/c.chunks; tile++ {
		t := c.isa.channelTile(tile, c.out)
		c.compute(s, src, group, images, t)
		for n := range images {
			c.write(s, n, group, first+n, t)
		}
	}
}

// compute computes the results of some channels of a block of images, channels
// last: each phase fills its places.
func (c *correlation) compute(s *convScratch, src []float32, group, images int, t channelTile) {
	s.out = grow(s.out, c.source.images*c.h*c.pitch*t.width)
	if c.sparse {
		clear(s.out)
	}
	for i := range c.phases {
		f := &c.phases[i]
		if len(f.off) > 0 {
			runs := f.runs[:roundUp(images*f.rows.count*f.lineRuns, f.kernel.groups)]
			c.isa.sweep(&s.sweep, f.kernel, t.width, src, c.weightsOf(f, group, t), s.out, f.off, 4*f.cols.stride, f.cols.step, runs, f.reach, false)
		}
	}
}

// write writes the results of image n of a block to where they belong.
func (c *correlation) write(s *convScratch, n, group, image int, t channelTile) {
	var e *epilogue
	if c.bias != nil {
		s.epilogue = epilogue{c.bias[group*c.out+t.first:], c.floor}
		e = &s.epilogue
	}
	plane := c.h * c.w
	dst := c.dst[(image*c.g.Groups+group)*c.out*plane+t.first*plane:][:t.n*plane]
	out := s.out[n*c.h*c.pitch*t.width:]
	if c.pitch == c.w {
		c.isa.transposeTo(dst, plane, out, t.width, plane, t.n, plane, e)
		return
	}
	for y := range c.h {
		c.isa.transposeTo(dst[y*c.w:], plane, out[y*c.pitch*t.width:], t.width, c.w, t.n, c.w, e)
	}
}

// view returns the channels of a group of some images of src, from the image
// first on, as the layout v tells: in place or as a padded copy.
func (s *convScratch) view(isa *convISA, v *planes, src []float32, groups, group, first, images int) []float32 {
	plane := v.h * v.w
	from := src[(first*groups+group)*v.channels*plane:]
	if v.fits() && images == v.images && (groups == 1 || images == 1) {
		return from
	}
	return s.padded.load(isa, *v, from, images, groups*v.channels*plane)
}
