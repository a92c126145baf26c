package shard

import (
	"math/rand/v2"

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
func (w *Conv2dFollower) Check(p coded.Product, slot, chunk int, operands []coded.Tensor, result coded.Tensor) (residual float64, err error) {
	f, row, err := w.asked(p, slot, chunk, operands)
	if err != nil {
		return 0, err
	}
	x := operands[0]
	c, err := w.config.cut(p, x.Shape, f.blocks, w.tasks)
	if err == nil && len(x.Data) != elements(x.Shape) {
		err = &coded.ShapeError{What: "verify: operand", Got: x.Shape, Elements: len(x.Data)}
	}
	if err != nil {
		return 0, w.wrong(p, slot, chunk, err)
	}
	chunks, at := w.tasks, chunk
	if w.rows {
		c.byBatch, chunks, at = true, 1, 0
	}
	if !c.byBatch && f.parts < chunks {
		return 0, nil
	}
	s := w.scratch.Get().(*checkScratch)
	defer w.scratch.Put(s)
	t := convTest{checkScratch: s, config: w.config, product: p, result: result}
	if residual, err = t.followed(f, c, x, row, chunks, at, w.off()); err != nil {
		return residual, w.wrong(p, slot, chunk, err)
	}
	return residual, nil
}

// followed tests a result with the sums that are followed.
func (t *convTest) followed(f *followed, c cut, x coded.Tensor, row []float64, chunks, chunk int, off float64) (residual float64, err error) {
	lo, hi, err := t.begin(c, chunks, chunk)
	if err != nil {
		return 0, err
	}
	first, last := chunk, chunk+1 // parts
	if c.byBatch {
		first, last = 0, f.parts
	}
	t.signs = t.signs[:0]
	for group := range f.groups {
		t.signs = append(t.signs, f.signs[group*f.rows+lo:group*f.rows+hi]...)
	}
	filter := t.sums.resize(f.lines, f.each)
	f.slot(filter.Data, row, first, last)
	t.sumChannels()
	t.convolve(t.operand(c, x, chunks, chunk), filter.Data)
	return t.judge(f.rounding(row, max(len(filter.Data), t.result.Shape[1]), off))
}
