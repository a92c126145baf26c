package shard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindLinear is the coded.Layer.Kind of a fully connected layer.
const KindLinear = "linear"

// LinearConfig describes a fully connected layer to the workers. Its parameter
// is [out, in].
type LinearConfig struct {
	In       int  `msgpack:"in"`       // input features
	Out      int  `msgpack:"out"`      // output features
	Backward bool `msgpack:"backward"` // dX is wanted: a second coded copy is kept for it
}

var _ Config = LinearConfig{}

func (c LinearConfig) String() string { return fmt.Sprintf("linear layer %dx%d", c.In, c.Out) }

// Kind implements Config.
func (c LinearConfig) Kind() string { return KindLinear }

// Marshal implements Config.
func (c LinearConfig) Marshal() ([]byte, error) { return msgpack.Marshal(c) }

// ParseLinearConfig reads what Marshal wrote. It refuses fields that it does
// not know and bytes after the end; Validate checks the values.
func ParseLinearConfig(b []byte) (LinearConfig, error) { return parse[LinearConfig](KindLinear, b) }

// Validate implements Config.
func (c LinearConfig) Validate(k, chunks int) error {
	var p problems
	if k < 1 || k > maxBlocks {
		p.add("%d blocks, want 1 to %d", k, maxBlocks)
	}
	p.features("in", "features", c.In, k, c.Backward)
	p.features("out", "features", c.Out, k, true)
	if len(p) == 0 {
		p.shards(c, k, chunks)
	}
	if len(p) > 0 {
		return fmt.Errorf("shard: %v: %w", c, errors.New(strings.Join(p, "; ")))
	}
	return nil
}

// MaxChunks implements Config.
func (c LinearConfig) MaxChunks(k int) int {
	f, r := c.copies(k)
	if r == nil {
		return f[0]
	}
	return min(f[0], r[0])
}

// copies implements Config: F is [block of outputs, in], R [block of inputs, out].
func (c LinearConfig) copies(k int) (f, r []int) {
	f = []int{coded.Blocks(c.Out, k).Size, c.In}
	if c.Backward {
		r = []int{coded.Blocks(c.In, k).Size, c.Out}
	}
	return f, r
}

// cut implements Config: chunks are columns of the blocks.
func (c LinearConfig) cut(p coded.Product, operand []int, k, _ int) (cut, error) {
	from, to := c.In, c.Out
	if p == coded.Backward {
		from, to = to, from
	}
	if len(operand) != 2 || operand[0] < 1 || operand[1] != from {
		return cut{}, fmt.Errorf("operand of shape %v, want [batch %d]", operand, from)
	}
	return cut{batch: operand[0], groups: 1, blocks: coded.Blocks(to, k)}, nil
}

// Encode implements Config.
func (c LinearConfig) Encode(weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	return encodeOne(c, weight, momentum, code, slot)
}

func (c LinearConfig) size() int { return c.In * c.Out }

func (c LinearConfig) encoders() []encoder { return []encoder{c.encodeF, c.encodeR} }

// encodeF combines blocks of output features, which are rows of x [out, in].
func (c LinearConfig) encodeF(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error {
	return coded.Combiner{Pool: p}.EncodeRows(dst, rows, c.tensor(x), coded.Blocks(c.Out, len(rows[0])))
}

// encodeR combines blocks of input features, which are columns of x [out, in],
// and makes them rows.
func (c LinearConfig) encodeR(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error {
	in := coded.Blocks(c.In, len(rows[0]))
	columns := make([]coded.Tensor, len(dst))
	for i := range columns {
		columns[i] = coded.NewTensor(c.Out, in.Size)
	}
	if err := (coded.Combiner{Pool: p}).EncodeColumns(columns, rows, c.tensor(x), in); err != nil {
		return err
	}
	for i, d := range dst {
		transpose(p, d.Data, columns[i].Data, c.Out, in.Size)
	}
	return nil
}

// transpose writes src, rows x cols, to dst, cols x rows, in tiles that stay in the
// first-level cache.
func transpose(p *kernel.Pool, dst, src []float32, rows, cols int) {
	const tile = 32
	p.Run((cols+tile-1)/tile, func(i int) {
		left, right := i*tile, min((i+1)*tile, cols)
		for top := 0; top < rows; top += tile {
			for r := top; r < min(top+tile, rows); r++ {
				for c, v := range src[r*cols+left : r*cols+right] {
					dst[(left+c)*rows+r] = v
				}
			}
		}
	})
}

// tensor is x as a weight of the layer.
func (c LinearConfig) tensor(x []float32) coded.Tensor {
	return coded.Tensor{Shape: []int{c.Out, c.In}, Data: x}
}

// Decode implements Config.
func (c LinearConfig) Decode(states []coded.ShardState, d *coded.Decoder) (weight, momentum []float32, err error) {
	return decode(c, states, d)
}

func (c LinearConfig) decodeF(dst []float32, weights [][]float64, f []coded.Tensor) error {
	return coded.DecodeRows(c.tensor(dst), weights, f, coded.Blocks(c.Out, len(weights)), 0)
}
