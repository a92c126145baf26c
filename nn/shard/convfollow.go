package shard

import (
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Conv2dFollower is the coded.Follower of a convolution. A convolution is linear in
// its weights, so Freivalds' test holds for it: with signs z of the channels of a
// result,
//
//	Y = X * F  implies  sum_o z_o Y_o = X * s,  s = sum_o z_o F_o
//
// where s is one filter over all input channels, so that a test costs as much as one
// output channel, and a sum of the result's. dX is alike, with signs of the input
// channels. The filters of block j and part C are trained by
//
//	dt_jC = the gradient of the weights for X and sum over o in C of z_o dY_jo
//
// Many parts would cost nearly as much as the gradient itself. So once an update has
// come whose operands are cut by samples, there is one part, all of a block; answers
// that are cut by channels even so, such as those for fewer samples than chunks, are
// then not tested.
type Conv2dFollower struct {
	follower
	config Conv2dConfig
	rows   bool             // the operand of a chunk is its samples alone, see coded.Layer.ByBatch
	ws     kernel.Workspace // of Accumulate
}

var _ coded.Follower = (*Conv2dFollower)(nil)

// NewConv2dFollower draws the signs.
func NewConv2dFollower(l coded.Layer, rng *rand.Rand) (*Conv2dFollower, error) {
	s, err := NewConv2d(l, 0, nil) // for its checks
	if err != nil {
		return nil, err
	}
	w, parts := &Conv2dFollower{config: s.config, rows: l.ByBatch}, l.Chunks
	if l.ByBatch {
		parts = 1
	}
	f, r := s.config.follow(len(s.row), parts)
	return w, w.begin(l, f, r, rng)
}

// follow describes the copies.
func (c Conv2dConfig) follow(blocks, parts int) (f, r *followed) {
	fs, rs := c.copies(blocks)
	out, in := c.blocks(blocks)
	taps := c.KernelH * c.KernelW
	f = &followed{shape: fs, groups: c.Groups, lines: c.Groups, rows: out.Size, each: c.In / c.Groups * taps, blocks: blocks, parts: parts}
	if rs != nil {
		r = &followed{shape: rs, groups: c.Groups, lines: c.Out, rows: in.Size, each: taps, blocks: blocks, parts: parts}
	}
	return f, r
}

// Accumulate implements coded.Follower.
func (w *Conv2dFollower) Accumulate(x, dy coded.Tensor) error {
	g, err := w.config.pair(w.name, x, dy)
	if err != nil {
		return err
	}
	w.merge(coded.Forward, &w.f, x)
	vectors := g
	vectors.CO = w.f.groups * w.f.blocks * w.f.parts
	w.gradient(&w.f, vectors, x.Data, w.f.fold(dy))
	if w.backward {
		w.merge(coded.Backward, &w.r, dy)
		g.CI = w.r.groups * w.r.blocks * w.r.parts
		w.gradient(&w.r, g, w.r.fold(x), dy.Data)
	}
	w.pending = true
	return nil
}

// merge makes one part of all if the product of an operand of an update is cut by
// samples.
func (w *Conv2dFollower) merge(p coded.Product, f *followed, operand coded.Tensor) {
	if c, err := w.config.cut(p, operand.Shape, f.blocks, w.tasks); err == nil && c.byBatch && f.parts > 1 {
		f.merge()
	}
}

// fold sums the channels of each block and part of x, [batch, groups*channels, height,
// width], with the signs: [batch, groups, blocks, parts, height, width].
func (f *followed) fold(x coded.Tensor) []float32 {
	lines, channels, plane := x.Shape[0]*f.groups, x.Shape[1]/f.groups, x.Shape[2]*x.Shape[3]
	folded := f.folded.resize(lines, f.blocks, f.parts, plane).Data
	to := folded
	for line := range lines {
		group := line % f.groups
		for block := range f.blocks {
			for part := range f.parts {
				lo, hi := ChunkRange(f.rows, f.parts, part)
				begin, end := min(block*f.rows+lo, channels), min(block*f.rows+hi, channels)
				f.planes = planes(f.planes[:0], x.Data[(line*channels+begin)*plane:(line*channels+end)*plane], plane)
				kernel.Combine(to[:plane], f.signs[group*f.rows+lo:][:end-begin], f.planes)
				to = to[plane:]
			}
		}
	}
	return folded
}

// planes appends the planes of x.
func planes(list [][]float32, x []float32, plane int) [][]float32 {
	for ; len(x) > 0; x = x[plane:] {
		list = append(list, x[:plane])
	}
	return list
}

// gradient adds the gradient of the sums.
func (w *Conv2dFollower) gradient(f *followed, g kernel.Conv, x, dy []float32) {
	dw := f.g
	if w.pending {
		dw = f.more.resize(len(f.g)).Data
	}
	kernel.ConvBackwardParams(nil, g, x, dy, dw, nil, &w.ws)
	if w.pending {
		kernel.Add(f.g, f.g, dw)
	}
}

// Check implements coded.Follower.
func (w *Conv2dFollower) Check(p coded.Product, slot, chunk int, x, result coded.Tensor) error {
	f, row, err := w.asked(p, slot, chunk)
	if err != nil {
		return err
	}
	c, err := w.config.cut(p, x.Shape, f.blocks, w.tasks)
	if err == nil && len(x.Data) != elements(x.Shape) {
		err = &coded.ShapeError{What: "verify: operand", Got: x.Shape, Elements: len(x.Data)}
	}
	if err != nil {
		return w.wrong(p, slot, chunk, err)
	}
	chunks, at := w.tasks, chunk
	if w.rows {
		c.byBatch, chunks, at = true, 1, 0
	}
	if !c.byBatch && f.parts < chunks {
		return nil
	}
	s := w.scratch.Get().(*checkScratch)
	defer w.scratch.Put(s)
	t := convTest{checkScratch: s, config: w.config, product: p, f: f, x: x, result: result}
	if err := t.run(c, row, chunks, at, w.off()); err != nil {
		return w.wrong(p, slot, chunk, err)
	}
	return nil
}

// convTest tests one result.
type convTest struct {
	*checkScratch
	config    Conv2dConfig
	product   coded.Product
	f         *followed
	x, result coded.Tensor // x without the samples of other chunks
	plane     int          // of the result
}

func (t *convTest) run(c cut, row []float64, chunks, chunk int, off float64) error {
	lo, hi := c.bounds(chunks, chunk)
	samples, channels := c.size(lo, hi)
	want := [...]int{samples, c.groups * channels, c.plane[0], c.plane[1]}
	if !shaped(t.result, want[:]) {
		return &coded.ShapeError{What: "verify: result", Got: slices.Clone(t.result.Shape), Elements: len(t.result.Data), Want: slices.Clone(want[:])}
	}
	t.plane = c.plane[0] * c.plane[1]
	first, last := chunk, chunk+1 // parts
	if c.byBatch {
		size := len(t.x.Data) / c.batch
		t.x.Data = t.x.Data[lo*size : hi*size]
		first, last, lo, hi = 0, t.f.parts, 0, t.f.rows
	}
	filter := t.sums.resize(t.f.lines, t.f.each)
	t.f.slot(filter.Data, row, first, last)
	t.sumChannels(lo, hi)
	t.convolve(samples, c.plane, filter.Data)
	r := t.f.rounding(row, max(len(filter.Data), want[1]), off)
	if wrong := r.Judge(t.got, t.want, t.squares); wrong != nil {
		return wrong
	}
	return nil
}

// sumChannels adds up the channels lo to hi of every group of the result.
func (t *convTest) sumChannels(lo, hi int) {
	t.signs = t.signs[:0]
	for group := range t.f.groups {
		t.signs = append(t.signs, t.f.signs[group*t.f.rows+lo:group*t.f.rows+hi]...)
	}
	samples, size := t.result.Shape[0], t.result.Shape[1]*t.plane
	sums := t.line.resize(t.plane).Data
	t.got = t.got[:0]
	for n := range samples {
		t.rows = planes(t.rows[:0], t.result.Data[n*size:(n+1)*size], t.plane)
		kernel.Combine(sums, t.signs, t.rows)
		t.got = widen(t.got, sums)
	}
	clear(t.rows)
}

// convolve computes what the sums should be.
func (t *convTest) convolve(samples int, plane []int, filter []float32) {
	g := t.config.geometry(samples, plane[0], plane[1])
	g.Groups = 1
	sums := t.line.resize(samples * t.plane).Data
	if t.product == coded.Forward {
		g.CO, g.H, g.W = 1, t.x.Shape[2], t.x.Shape[3]
		kernel.ConvForward(nil, g, t.x.Data, filter, nil, sums, false, &t.ws)
	} else {
		g.CI = 1
		kernel.ConvBackwardInput(nil, g, t.x.Data, filter, sums, &t.ws)
	}
	t.want = widen(t.want[:0], sums)
}

// squares gives the sums of squares at a place of a sample: of the channels of the
// result, and of what of the operand they are made of.
func (t *convTest) squares(place int) (result, operand float64) {
	sample, at := place/t.plane, place%t.plane
	size := t.result.Shape[1] * t.plane
	for i := sample*size + at; i < (sample+1)*size; i += t.plane {
		result += float64(t.result.Data[i]) * float64(t.result.Data[i])
	}
	width := t.result.Shape[3]
	channels, xh, xw := t.x.Shape[1], t.x.Shape[2], t.x.Shape[3]
	x := t.x.Data[sample*channels*xh*xw:][:channels*xh*xw]
	for kh := range t.config.KernelH {
		h, ok := t.source(at/width, kh, xh)
		if !ok {
			continue
		}
		for kw := range t.config.KernelW {
			w, ok := t.source(at%width, kw, xw)
			for i := h*xw + w; ok && i < len(x); i += xh * xw {
				operand += float64(x[i]) * float64(x[i])
			}
		}
	}
	return result, operand
}

// source returns the row (or column) of the operand that a tap of the kernel takes to
// a row of the result.
func (t *convTest) source(at, tap, size int) (int, bool) {
	c := t.config
	from := at*c.Stride - c.Padding + tap*c.Dilation
	if t.product == coded.Backward {
		from = at + c.Padding - tap*c.Dilation
		if from%c.Stride != 0 {
			return 0, false
		}
		from /= c.Stride
	}
	return from, from >= 0 && from < size
}

func widen(dst []float64, x []float32) []float64 {
	for _, v := range x {
		dst = append(dst, float64(v))
	}
	return dst
}
