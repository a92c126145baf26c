package shard

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// KindLinear is the coded.Layer.Kind of a fully connected layer.
const KindLinear = "linear"

// Bounds of what a worker accepts, so that a message cannot make it reserve
// memory without end.
const (
	maxFeatures = 1 << 24 // in or out
	maxElements = 1 << 30 // of one tensor of a shard
	maxBlocks   = 1 << 12 // k of the code
)

// LinearConfig describes a fully connected layer to the workers.
type LinearConfig struct {
	In       int  `msgpack:"in"`       // input features
	Out      int  `msgpack:"out"`      // output features
	Backward bool `msgpack:"backward"` // dX is wanted: a second coded copy is kept for it
}

// Marshal writes the configuration as coded.Layer.Config.
func (c LinearConfig) Marshal() ([]byte, error) { return msgpack.Marshal(c) }

// ParseLinearConfig reads what Marshal wrote. It refuses fields that it does
// not know and bytes after the end; Validate checks the values.
func ParseLinearConfig(b []byte) (LinearConfig, error) {
	r := bytes.NewReader(b)
	d := msgpack.NewDecoder(r)
	d.DisallowUnknownFields(true)
	var c LinearConfig
	if err := d.Decode(&c); err != nil {
		return LinearConfig{}, fmt.Errorf("shard: linear configuration: %w", err)
	}
	if r.Len() > 0 {
		return LinearConfig{}, fmt.Errorf("shard: linear configuration: %d bytes after the end", r.Len())
	}
	return c, nil
}

// Validate tells, all at once, what speaks against cutting the layer into k
// blocks of features and its shards into so many chunks.
func (c LinearConfig) Validate(k, chunks int) error {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if k < 1 || k > maxBlocks {
		add("%d blocks, want 1 to %d", k, maxBlocks)
	}
	for _, f := range []struct {
		name string
		size int
	}{{"in", c.In}, {"out", c.Out}} {
		if f.size < 1 || f.size > maxFeatures {
			add("%s has %d features, want 1 to %d", f.name, f.size, maxFeatures)
		} else if f.size < k {
			add("%s has %d features, fewer than the %d blocks of the code: the layer has to stay local", f.name, f.size, k)
		}
	}
	if len(problems) == 0 {
		f, r := c.sides(k)
		if f.size() > maxElements || r.size() > maxElements {
			add("a shard of %dx%d values, want at most %d", f.rows, f.cols, maxElements)
		}
		if most := c.MaxChunks(k); chunks < 1 || chunks > most {
			add("%d chunks, want 1 to %d (the rows of a shard)", chunks, most)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("shard: linear layer %dx%d: %s", c.In, c.Out, strings.Join(problems, "; "))
	}
	return nil
}

// MaxChunks is the largest number of chunks into which the products of a shard
// can be cut: the features of its smaller block.
func (c LinearConfig) MaxChunks(k int) int {
	f, r := c.sides(k)
	if !c.Backward {
		return f.rows
	}
	return min(f.rows, r.rows)
}

// sides returns the shapes of the two coded copies: F holds blocks of output
// features, R blocks of input features.
func (c LinearConfig) sides(k int) (f, r side) {
	return side{rows: coded.Blocks(c.Out, k).Size, cols: c.In}, side{rows: coded.Blocks(c.In, k).Size, cols: c.Out}
}

// copies is the number of coded copies: F, and R if dX is wanted.
func (c LinearConfig) copies() int {
	if c.Backward {
		return 2
	}
	return 1
}

// side is the shape of one coded copy: a block of rows features, each with the
// cols weights to the features of the other side.
type side struct{ rows, cols int }

func (s side) size() int { return s.rows * s.cols }

// Partition returns the blocks of columns that a product's result is cut into.
func (c LinearConfig) Partition(p coded.Product, k int) coded.Partition {
	if p == coded.Backward {
		return coded.Blocks(c.In, k)
	}
	return coded.Blocks(c.Out, k)
}

// ChunkRange returns the columns lo to hi of every block of a result, 0 <= lo <
// hi <= size of a block, that a chunk of the product computes. The last blocks may
// be shorter than size: what lies beyond their end is padding.
func ChunkRange(size, chunks, chunk int) (lo, hi int) {
	return chunk * size / chunks, (chunk + 1) * size / chunks
}
