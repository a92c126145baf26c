package kernel

// Where planes are single entries, channels are columns of a matrix: a part
// transposes some of them into memory of its own, and the channels are computed
// there like those of one image.

// batchColumns is the memory of a part.
type batchColumns struct {
	channels batchNorm
	data     []float32
}

var batchColumnMemory = freeList[batchColumns]{most: 8}

const columnsPer = 64

// run computes all channels: of the whole, or of blocks of columns.
func (t *batchNorm) run(p *Pool, channel func(t *batchNorm, c int)) {
	t.channel = channel
	if t.Plane == 1 && t.C > 1 {
		p.run(ceilDiv(t.C, columnsPer), (*batchNormColumns)(t))
	} else {
		p.run(t.C, t)
	}
}

func (t *batchNorm) part(c int) { t.channel(t, c) }

type batchNormColumns batchNorm

func (b *batchNormColumns) part(i int) {
	t := (*batchNorm)(b)
	first := i * columnsPer
	n := min(columnsPer, t.C-first)
	w := batchColumnMemory.get()
	s := &w.channels
	*s = *t
	s.N, s.C, s.Plane = 1, n, t.N
	for _, x := range []*[]float32{&s.Gamma, &s.Beta, &s.RunningMean, &s.RunningVar, &s.Mean, &s.InvStd, &s.dgamma, &s.dbeta} {
		if *x != nil {
			*x = (*x)[first : first+n]
		}
	}
	size := n * t.N
	w.data = grow(w.data, 6*size)
	for j, x := range []*[]float32{&s.x, &s.residual, &s.y, &s.dy, &s.dx, &s.dresidual} {
		if *x == nil {
			continue
		}
		from := (*x)[first:]
		*x = w.data[j*size:][:size]
		activeConv.transposeTo(*x, t.N, from, t.C, t.N, n, t.N, nil)
	}
	for c := range n {
		t.channel(s, c)
	}
	for _, x := range []struct{ dst, src []float32 }{{t.y, s.y}, {t.dx, s.dx}, {t.dresidual, s.dresidual}} {
		if x.dst != nil {
			activeConv.transposeTo(x.dst[first:], t.C, x.src, t.N, n, t.N, n, nil)
		}
	}
	*s = batchNorm{}
	batchColumnMemory.put(w)
}
