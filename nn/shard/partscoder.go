package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// PartsCoder gives the slots their factors of a gradient that is coded by a code for
// sums of gradients, in place of one for sums of products. Slot i returns
//
//	r_i = sum_p B_ip dY_p^T X_p
//
// over the parts p of the batch that it knows (R. Tandon, Q. Lei, A. Dimakis,
// N. Karampatziakis, "Gradient coding", ICML 2017). That is one product, of the
// samples of these parts one below the other, those of dY times their coefficients:
// so the Gradient that computes it needs to know nothing of the code, and no part is
// ever mixed with another. A lost worker costs every other one a part more, where
// a code for products costs answers.
//
// It is safe for concurrent use.
type PartsCoder struct {
	code  *coded.Code
	slots [][]codedPart
	most  int // parts that a slot knows
}

// codedPart is a part of the batch and its coefficient.
type codedPart struct {
	part        int
	coefficient float32
}

// CodesParts tells whether a code is one for sums of gradients, exact and with one
// result a task.
func CodesParts(code *coded.Code) bool {
	if code.Kind() != coded.Gradients || code.Outputs() != 1 || code.Threshold() < 1 {
		return false
	}
	for slot := range code.N() {
		if code.Results(slot) != 1 {
			return false
		}
	}
	return true
}

// NewPartsCoder returns the coder of X, or of dY if weighted is set, by a code that
// CodesParts.
func NewPartsCoder(code *coded.Code, weighted bool) (*PartsCoder, error) {
	if !CodesParts(code) {
		return nil, fmt.Errorf("shard: code %v: want an exact one for sums of gradients, with one result a task", code)
	}
	c := &PartsCoder{code: code, slots: make([][]codedPart, code.N())}
	for slot := range c.slots {
		for part, b := range code.Rows(slot)[0] {
			if b == 0 {
				continue
			}
			if !weighted {
				b = 1
			}
			c.slots[slot] = append(c.slots[slot], codedPart{part, float32(b)})
		}
		c.most = max(c.most, len(c.slots[slot]))
	}
	return c, nil
}

// Shape returns the shape of the factors of all slots for one of a shape: [n,
// samples of a slot, ..].
func (c *PartsCoder) Shape(factor []int) []int {
	return append([]int{len(c.slots), c.most * c.partition(factor).Size}, factor[1:]...)
}

func (c *PartsCoder) partition(factor []int) coded.Partition {
	return coded.Blocks(factor[0], c.code.K())
}

// Encode writes the factors of all slots to dst, with zeros for the samples that the
// last parts lack.
func (c *PartsCoder) Encode(pool *kernel.Pool, dst []float32, x coded.Tensor) error {
	if len(x.Shape) < 2 || elements(x.Shape) != len(x.Data) || x.Shape[0] < 1 {
		return fmt.Errorf("operand of shape %v with %d values", x.Shape, len(x.Data))
	}
	shape := c.Shape(x.Shape)
	if len(dst) != elements(shape) {
		return fmt.Errorf("%d values for the factors of all slots, want shape %v", len(dst), shape)
	}
	p, each := c.partition(x.Shape), len(dst)/len(c.slots)
	sample := len(x.Data) / x.Shape[0]
	pool.Run(len(c.slots), func(slot int) {
		to := dst[slot*each : (slot+1)*each]
		for _, s := range c.slots[slot] {
			lo, hi := p.Bounds(s.part)
			n := (hi - lo) * sample
			kernel.Combine(to[:n], []float32{s.coefficient}, [][]float32{x.Data[lo*sample : hi*sample]})
			clear(to[n : p.Size*sample])
			to = to[p.Size*sample:]
		}
		clear(to)
	})
	return nil
}
