package dist

import (
	"sync"
	"sync/atomic"

	"github.com/coda-ml/coda/coded"
)

// bufferPool recycles the memory of tensors by size. A steady training step
// asks for the same sizes over and over, so that it allocates nothing. The
// zero value is ready; it is safe for concurrent use.
type bufferPool struct {
	mu   sync.Mutex
	free map[int][][]float32
	made int // buffers that had to be allocated
}

// buffersPerSize bounds what the pool keeps of each size.
const buffersPerSize = 64

func (p *bufferPool) take(size int) []float32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.free[size]
	if len(list) == 0 {
		p.made++
		return make([]float32, size)
	}
	last := len(list) - 1
	p.free[size] = list[:last]
	return list[last]
}

func (p *bufferPool) give(b []float32) {
	if len(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = map[int][][]float32{}
	}
	if list := p.free[len(b)]; len(list) < buffersPerSize {
		p.free[len(b)] = append(list, b)
	}
}

// copyOf returns a counted copy of t with one reference.
func (p *bufferPool) copyOf(t coded.Tensor) *counted {
	data := p.take(len(t.Data))
	copy(data, t.Data)
	c := &counted{tensor: coded.Tensor{Shape: append([]int(nil), t.Shape...), Data: data}, pool: p}
	c.refs.Store(1)
	return c
}

// adopt returns t, whose memory becomes the pool's, with one reference.
func (p *bufferPool) adopt(t coded.Tensor) *counted {
	c := &counted{tensor: t, pool: p}
	c.refs.Store(1)
	return c
}

// counted is a tensor that goes back to its pool with its last reference.
type counted struct {
	tensor coded.Tensor
	refs   atomic.Int32
	pool   *bufferPool
	freed  func(bytes int) // called with the last release, if not nil
}

func (c *counted) retain() *counted {
	c.refs.Add(1)
	return c
}

func (c *counted) release() {
	if c == nil {
		return
	}
	switch n := c.refs.Add(-1); {
	case n == 0:
		if c.freed != nil {
			c.freed(4 * len(c.tensor.Data))
		}
		c.pool.give(c.tensor.Data)
		c.tensor = coded.Tensor{}
	case n < 0:
		panic("dist: buffer released more often than retained")
	}
}
