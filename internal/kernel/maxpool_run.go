package kernel

// maxPool is the task of a forward pass; a part is one image.
type maxPool struct {
	MaxPool
	isa     *convISA
	in, out []float32
	choice  []uint16
}

// maxUnpool is the task of a backward pass.
type maxUnpool maxPool

var maxPools = freeList[maxPool]{most: 8}

// pairs tells whether the windows are disjoint pairs of rows and columns: the
// case of most networks, which has kernels of its own.
func (t *maxPool) pairs() bool {
	return t.KH == 2 && t.KW == 2 && t.StrideH == 2 && t.StrideW == 2 && t.PadH == 0 && t.PadW == 0
}

// blocks calls f for each plane of an image, or once for all of them where
// every row belongs to a pair.
func (t *maxPool) blocks(image int, f func(t *maxPool, in, out []float32, choice []uint16, pairs int)) {
	in, out := t.H*t.W, t.OutH()*t.OutW()
	planes, n := t.C, 1
	if t.pairs() && t.H%2 == 0 {
		planes, n = 1, t.C
	}
	for c := range planes {
		i := image*t.C + c
		f(t, t.in[i*in:(i+n)*in], t.out[i*out:(i+n)*out], t.choice[i*out:(i+n)*out], n*t.OutH())
	}
}

func (t *maxPool) part(image int) {
	if t.pairs() {
		t.blocks(image, func(t *maxPool, in, out []float32, choice []uint16, pairs int) {
			t.isa.pool2(&t.MaxPool, in, out, choice, t.W, pairs)
		})
		return
	}
	t.blocks(image, (*maxPool).plane)
}

func (u *maxUnpool) part(image int) {
	t := (*maxPool)(u)
	t.blocks(image, func(t *maxPool, in, out []float32, choice []uint16, pairs int) {
		if !t.pairs() {
			clear(in)
			t.spreadPlane(in, out, choice)
			return
		}
		if t.H%2 != 0 || t.W%2 != 0 {
			clear(in)
		}
		t.isa.unpool2(&t.MaxPool, in, out, choice, t.W, pairs)
	})
}

// plane pools one plane, whatever the windows.
func (t *maxPool) plane(in, out []float32, choice []uint16, _ int) {
	ow := t.OutW()
	for i := range out {
		out[i], choice[i] = t.relu(t.window(in, i/ow, i%ow))
	}
}

func (g *MaxPool) relu(best float32, at uint16) (float32, uint16) {
	if g.ReLU && best <= 0 {
		return 0, Dead
	}
	return best, at
}

// window returns the maximum of the window of output row r and column c, and
// its place. Every window meets the plane, since padding is at most half of it.
func (g *MaxPool) window(in []float32, r, c int) (best float32, at uint16) {
	top, left := r*g.StrideH-g.PadH, c*g.StrideW-g.PadW
	first := true
	for i := max(top, 0); i < min(top+g.KH, g.H); i++ {
		for j := max(left, 0); j < min(left+g.KW, g.W); j++ {
			if v := in[i*g.W+j]; first || exceeds(v, best) {
				best, at, first = v, uint16((i-top)*g.KW+j-left), false
			}
		}
	}
	return best, at
}

// exceeds tells whether v takes the place of the largest entry so far: a NaN
// always does, as in PyTorch.
func exceeds(v, best float32) bool { return v > best || v != v }

// spreadPlane adds the gradient of each window to its choice.
func (t *maxPool) spreadPlane(in, out []float32, choice []uint16) {
	ow := t.OutW()
	for i, d := range out {
		if at := int(choice[i]); at != Dead {
			in[(i/ow*t.StrideH-t.PadH+at/t.KW)*t.W+i%ow*t.StrideW-t.PadW+at%t.KW] += d
		}
	}
}

// poolPairsPortable pools 2 x 2 windows of pairs of rows of w entries.
func poolPairsPortable(g *MaxPool, in, out []float32, choice []uint16, w, pairs int) {
	for r := range pairs {
		top, bottom := in[2*r*w:(2*r+1)*w], in[(2*r+1)*w:(2*r+2)*w]
		y, at := out[r*(w/2):(r+1)*(w/2)], choice[r*(w/2):(r+1)*(w/2)]
		for j := range y {
			best, place := top[2*j], uint16(0)
			if v := top[2*j+1]; exceeds(v, best) {
				best, place = v, 1
			}
			if v := bottom[2*j]; exceeds(v, best) {
				best, place = v, 2
			}
			if v := bottom[2*j+1]; exceeds(v, best) {
				best, place = v, 3
			}
			y[j], at[j] = g.relu(best, place)
		}
	}
}

// unpoolPairsPortable is the gradient of poolPairsPortable; it writes the
// entries that windows cover.
func unpoolPairsPortable(_ *MaxPool, in, out []float32, choice []uint16, w, pairs int) {
	for r := range pairs {
		top, bottom := in[2*r*w:(2*r+1)*w], in[(2*r+1)*w:(2*r+2)*w]
		dy, at := out[r*(w/2):(r+1)*(w/2)], choice[r*(w/2):(r+1)*(w/2)]
		for j, d := range dy {
			var v [4]float32
			if place := at[j]; place < 4 {
				v[place] = d
			}
			top[2*j], top[2*j+1], bottom[2*j], bottom[2*j+1] = v[0], v[1], v[2], v[3]
		}
	}
}
