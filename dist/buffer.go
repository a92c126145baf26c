package dist

import (
	"cmp"
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
	kept int // values in free
	most int // of kept; 0: poolValues
	made int // buffers that had to be allocated
}

// The pool keeps so many buffers of each size, and so many values in all. When
// there are more, of ever new sizes, it begins anew.
const (
	buffersPerSize = 64
	poolValues     = 1 << 28
)

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
	p.kept -= size
	return list[last]
}

func (p *bufferPool) give(b []float32) {
	if len(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	most := cmp.Or(p.most, poolValues)
	if len(b) > most {
		return
	}
	if p.free == nil || p.kept+len(b) > most {
		p.free, p.kept = map[int][][]float32{}, 0
	}
	if list := p.free[len(b)]; len(list) < buffersPerSize {
		p.free[len(b)] = append(list, b)
		p.kept += len(b)
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

// copyOperands is copyOf for one or two tensors.
func (p *bufferPool) copyOperands(ts []coded.Tensor) *counted {
	c := p.copyOf(ts[0])
	for _, t := range ts[1:] {
		c.more = p.copyOf(t)
	}
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
	more   *counted        // a second tensor, released with the first; nil if there is none
}

// tensors lists the tensor, and the second one if there is one.
func (c *counted) tensors() []coded.Tensor {
	list := []coded.Tensor{c.tensor}
	if c.more != nil {
		list = append(list, c.more.tensor)
	}
	return list
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
		c.more.release()
	case n < 0:
		panic("dist: buffer released more often than retained")
	}
}
