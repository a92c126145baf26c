package shard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindConv2d is the coded.Layer.Kind of a two-dimensional convolution.
const KindConv2d = "conv2d"

// Conv2dConfig describes a two-dimensional convolution to the workers, as in
// kernel.Conv. Its parameter is [out, in/groups, kernel height, kernel width]. The
// channels of every group are cut into k blocks. The size of the input is not part
// of it: operands tell.
type Conv2dConfig struct {
	In       int  `msgpack:"in"`       // input channels
	Out      int  `msgpack:"out"`      // output channels
	KernelH  int  `msgpack:"kh"`       // rows of the kernel
	KernelW  int  `msgpack:"kw"`       // columns
	Stride   int  `msgpack:"stride"`   // at least 1
	Padding  int  `msgpack:"padding"`  // zeros at each edge of the input
	Dilation int  `msgpack:"dilation"` // at least 1
	Groups   int  `msgpack:"groups"`   // at least 1
	Backward bool `msgpack:"backward"` // dX is wanted: a second coded copy is kept for it
}

var _ Config = Conv2dConfig{}

// maxExtent bounds a kernel with its dilation, the padding and the stride.
const maxExtent = 1 << 10

func (c Conv2dConfig) String() string {
	return fmt.Sprintf("conv2d layer %dx%d, kernel %dx%d, %d groups", c.In, c.Out, c.KernelH, c.KernelW, c.Groups)
}

// Kind implements Config.
func (c Conv2dConfig) Kind() string { return KindConv2d }

// Marshal implements Config.
func (c Conv2dConfig) Marshal() ([]byte, error) { return msgpack.Marshal(c) }

// ParseConv2dConfig reads what Marshal wrote. It refuses fields that it does
// not know and bytes after the end; Validate checks the values.
func ParseConv2dConfig(b []byte) (Conv2dConfig, error) { return parse[Conv2dConfig](KindConv2d, b) }

// Validate implements Config.
func (c Conv2dConfig) Validate(k, chunks int) error {
	var p problems
	if k < 1 || k > maxBlocks {
		p.add("%d blocks, want 1 to %d", k, maxBlocks)
	}
	c.validateGeometry(&p)
	if len(p) == 0 {
		what := "channels"
		if c.Groups > 1 {
			what = "channels a group"
		}
		p.features("in", what, c.In/c.Groups, k, c.Backward)
		p.features("out", what, c.Out/c.Groups, k, true)
	}
	if len(p) == 0 {
		p.shards(c, k, chunks)
	}
	if len(p) > 0 {
		return fmt.Errorf("shard: %v: %w", c, errors.New(strings.Join(p, "; ")))
	}
	return nil
}

func (c Conv2dConfig) validateGeometry(p *problems) {
	for _, v := range []struct {
		name            string
		value, lo, most int
	}{
		{"in channels", c.In, 1, maxFeatures}, {"out channels", c.Out, 1, maxFeatures}, {"groups", c.Groups, 1, maxFeatures},
		{"kernel height", c.KernelH, 1, maxExtent}, {"kernel width", c.KernelW, 1, maxExtent},
		{"stride", c.Stride, 1, maxExtent}, {"padding", c.Padding, 0, maxExtent}, {"dilation", c.Dilation, 1, maxExtent},
	} {
		if v.value < v.lo || v.value > v.most {
			p.add("%s %d, want %d to %d", v.name, v.value, v.lo, v.most)
		}
	}
	if len(*p) == 0 && (c.In%c.Groups != 0 || c.Out%c.Groups != 0) {
		p.add("%d input and %d output channels, want multiples of the groups", c.In, c.Out)
	}
}

// MaxChunks implements Config.
func (c Conv2dConfig) MaxChunks(k int) int {
	f, r := c.blocks(k)
	if !c.Backward {
		return f.Size
	}
	return min(f.Size, r.Size)
}

// blocks returns how the channels of a group are cut: those of the output for F,
// those of the input for R.
func (c Conv2dConfig) blocks(k int) (out, in coded.Partition) {
	return coded.Blocks(c.Out/c.Groups, k), coded.Blocks(c.In/c.Groups, k)
}

// copies implements Config: each copy is the weight of a convolution of as many
// groups, F of one with fewer output channels, R of one with fewer input channels.
func (c Conv2dConfig) copies(k int) (f, r []int) {
	out, in := c.blocks(k)
	f = []int{c.Groups * out.Size, c.In / c.Groups, c.KernelH, c.KernelW}
	if c.Backward {
		r = []int{c.Out, in.Size, c.KernelH, c.KernelW}
	}
	return f, r
}

// geometry is that of the layer for an input of a size.
func (c Conv2dConfig) geometry(n, h, w int) kernel.Conv {
	return kernel.Conv{
		N: n, CI: c.In, H: h, W: w, CO: c.Out, KH: c.KernelH, KW: c.KernelW, StrideH: c.Stride, StrideW: c.Stride,
		PadH: c.Padding, PadW: c.Padding, DilH: c.Dilation, DilW: c.Dilation, Groups: c.Groups,
	}
}

// geometryOf is that of the layer for the operand of a product. The input of a
// backward product is taken as large as its output allows: with a stride, inputs
// of several sizes have outputs of one, and their gradients differ only in zeros
// beyond the edge.
func (c Conv2dConfig) geometryOf(p coded.Product, operand []int) (kernel.Conv, error) {
	channels := c.In
	if p == coded.Backward {
		channels = c.Out
	}
	if len(operand) != 4 || operand[1] != channels || min(operand[0], operand[2], operand[3]) < 1 || !bounded(operand, maxElements) {
		return kernel.Conv{}, fmt.Errorf("operand of shape %v, want [batch %d height width]", operand, channels)
	}
	h, w := operand[2], operand[3]
	if p == coded.Backward {
		h, w = c.largest(h, c.KernelH), c.largest(w, c.KernelW)
	}
	g := c.geometry(operand[0], h, w)
	if err := g.Validate(); err != nil {
		return kernel.Conv{}, err
	}
	return g, nil
}

// largest returns the largest input (rows or columns) that gives so much output.
func (c Conv2dConfig) largest(out, kernel int) int {
	return out*c.Stride + c.Dilation*(kernel-1) - 2*c.Padding
}

// cut implements Config. Every chunk reads its part of one factor and the other
// factor whole: so the larger one is cut, if there are enough samples.
func (c Conv2dConfig) cut(p coded.Product, operand []int, k, chunks int) (cut, error) {
	g, err := c.geometryOf(p, operand)
	if err != nil {
		return cut{}, err
	}
	f, r := c.copies(k)
	out, in := c.blocks(k)
	if p == coded.Backward {
		return cut{g.N, c.Groups, in, []int{g.H, g.W}, g.N >= chunks && elements(r) <= elements(operand)}, nil
	}
	return cut{g.N, c.Groups, out, []int{g.OutH(), g.OutW()}, g.N >= chunks && elements(f) <= elements(operand)}, nil
}

// Encode implements Config.
func (c Conv2dConfig) Encode(weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	return encodeOne(c, weight, momentum, code, slot)
}

func (c Conv2dConfig) size() int { return c.Out * (c.In / c.Groups) * c.KernelH * c.KernelW }

func (c Conv2dConfig) encoders() []encoder { return []encoder{c.encodeF, c.encodeR} }

// encodeF combines blocks of output channels, within each group: the groups are
// lines of channels.
func (c Conv2dConfig) encodeF(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error {
	out, _ := c.blocks(len(rows[0]))
	lines := make([]coded.Tensor, len(dst))
	for i, d := range dst {
		lines[i] = coded.Tensor{Shape: []int{c.Groups, out.Size, len(d.Data) / c.Groups / out.Size}, Data: d.Data}
	}
	return coded.Combiner{Pool: p}.EncodeColumns(lines, rows, c.filters(x), out)
}

// encodeR combines blocks of input channels of every filter.
func (c Conv2dConfig) encodeR(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error {
	_, in := c.blocks(len(rows[0]))
	return coded.Combiner{Pool: p}.EncodeColumns(dst, rows, coded.Tensor{Shape: []int{c.Out, in.Total, c.KernelH, c.KernelW}, Data: x}, in)
}

// filters is x as [groups, output channels of a group, weights of one].
func (c Conv2dConfig) filters(x []float32) coded.Tensor {
	return coded.Tensor{Shape: []int{c.Groups, c.Out / c.Groups, len(x) / c.Out}, Data: x}
}

// Decode implements Config.
func (c Conv2dConfig) Decode(states []coded.ShardState, d *coded.Decoder) (weight, momentum []float32, err error) {
	return decode(c, states, d)
}

func (c Conv2dConfig) decodeF(dst []float32, weights [][]float64, f []coded.Tensor) error {
	out, _ := c.blocks(len(weights))
	lines := make([]coded.Tensor, len(f))
	for i, t := range f {
		lines[i] = coded.Tensor{Shape: []int{c.Groups, out.Size, len(dst) / c.Out}, Data: t.Data}
	}
	return coded.DecodeColumns(c.filters(dst), weights, lines, out, 0)
}
