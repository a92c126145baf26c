package nn

import (
	"errors"
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
)

// Buffer is a tensor of a model's state that training changes but no optimiser:
// a running mean. Modules hold pointers to their buffers in exported fields,
// where State finds them, named as PyTorch names its buffers.
type Buffer struct {
	Value coded.Tensor
}

// NewBuffer returns a buffer of which every entry is v.
func NewBuffer(v float32, shape ...int) *Buffer {
	b := &Buffer{Value: coded.NewTensor(shape...)}
	for i := range b.Value.Data {
		b.Value.Data[i] = v
	}
	return b
}

// Counter is a whole number of a model's state: num_batches_tracked of a
// BatchNorm. Files hold it as PyTorch does, as an int64 without dimensions.
type Counter struct {
	Value int64
}

// boundBuffer is a buffer in a training graph. Operations change next; a step
// that succeeds makes it the buffer's value, one that fails leaves no trace.
type boundBuffer struct {
	buffer *Buffer
	name   string
	next   []float32
}

// buffer binds a buffer to the graph. In a graph for evaluation next is the
// buffer's own memory.
func (g *Graph) buffer(b *Buffer) (*boundBuffer, error) {
	if b == nil {
		return nil, errors.New("nn: nil buffer")
	}
	for _, bound := range g.buffers {
		if bound.buffer == b {
			return bound, nil
		}
	}
	name, ok := g.names[b]
	if !ok {
		return nil, fmt.Errorf("nn: a buffer of shape %v is not found by walking the model: its field must be exported", b.Value.Shape)
	}
	if want := size(b.Value.Shape); len(b.Value.Data) != want || want == 0 {
		return nil, fmt.Errorf("nn: buffer %s: %d numbers for shape %v", name, len(b.Value.Data), b.Value.Shape)
	}
	bound := &boundBuffer{buffer: b, name: name, next: b.Value.Data}
	if g.training {
		bound.next = make([]float32, len(b.Value.Data))
	}
	g.buffers = append(g.buffers, bound)
	return bound, nil
}

// count notes that a successful step adds one to the counter.
func (g *Graph) count(c *Counter) {
	if c != nil {
		g.counters = append(g.counters, c)
	}
}

// begin copies the buffers before a training run.
func (g *Graph) begin() {
	for _, b := range g.buffers {
		copy(b.next, b.buffer.Value.Data)
	}
}

// commit takes over what a training run has made of the buffers.
func (g *Graph) commit() {
	for _, b := range g.buffers {
		copy(b.buffer.Value.Data, b.next)
	}
	for _, c := range g.counters {
		if c.Value < math.MaxInt64 {
			c.Value++
		}
	}
}
