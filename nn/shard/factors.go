package shard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coda-ml/coda/coded"
)

// factorCut tells how the factors of a layer's products are cut by a code for C = A B
// with A in m x p blocks and B in p x q.
type factorCut struct {
	config  Config
	m, p, q int
}

func newFactorCut(c Config, code *coded.Code) factorCut {
	m, p, q, _ := code.Matrix()
	return factorCut{c, m, p, q}
}

// splits returns into how many blocks the samples, the inputs and the outputs are cut for
// a product.
func (f factorCut) splits(p coded.Product) (batch, in, out int) {
	switch p {
	case coded.Forward:
		return f.m, f.p, f.q
	case coded.Backward:
		return f.m, f.q, f.p
	}
	return f.p, f.q, f.m
}

// features returns the numbers of inputs and outputs of the layer.
func (f factorCut) features() (in, out int) {
	w, _ := f.config.copies(1)
	return w[1], w[0]
}

// block returns the layer of one block of inputs and one of outputs.
func (f factorCut) block(p coded.Product) Config {
	_, ins, outs := f.splits(p)
	in, out := f.features()
	in, out = coded.Blocks(in, ins).Size, coded.Blocks(out, outs).Size
	if c, ok := f.config.(Conv2dConfig); ok {
		c.In, c.Out, c.Backward = in, out, true
		return c
	}
	return LinearConfig{In: in, Out: out, Backward: true}
}

// TwoSided tells whether a code is one for a shipped placement: exact, for the product
// of two factors both of which are coded, with equal tasks.
func TwoSided(code *coded.Code) bool {
	if _, _, _, ok := code.Matrix(); !ok || code.BBlocks() == 1 || code.Approximate() {
		return false
	}
	first := code.Task(0)
	for t := range code.N() {
		if task := code.Task(t); len(task.A) != len(first.A) || len(task.B) != len(first.B) || code.Results(t) != code.Results(0) {
			return false
		}
	}
	return true
}

// ValidateShipped tells, all at once, what speaks against a shipped placement of a
// layer: a code that is not TwoSided, groups, fewer features than blocks, and a number
// of chunks.
func ValidateShipped(c Config, code *coded.Code, chunks int) error {
	if !TwoSided(code) {
		return fmt.Errorf("code %v: want an exact one for the product of two coded factors, such as ortho-polynomial or entangled", code)
	}
	if err := c.Validate(1, 1); err != nil {
		return err
	}
	var p problems
	if conv, ok := c.(Conv2dConfig); ok && conv.Groups > 1 {
		p.add("a convolution of groups has no shipped placement")
	}
	f := newFactorCut(c, code)
	in, out := f.features()
	ins, outs := f.finest()
	what := "features"
	if c.Kind() == KindConv2d {
		what = "channels"
	}
	p.features("in", what, in, ins, true)
	p.features("out", what, out, outs, true)
	if most := ShippedChunks(c, code); len(p) == 0 && (chunks < 1 || chunks > most) {
		p.add("%d chunks, want 1 to %d (the features of a block)", chunks, most)
	}
	if len(p) > 0 {
		return fmt.Errorf("shard: %v, code %v: %w", c, code, errors.New(strings.Join(p, "; ")))
	}
	return nil
}

// finest returns into how many blocks the inputs and the outputs are cut at most. The gradient
// of the input need not be wanted.
func (f factorCut) finest() (in, out int) {
	for p := coded.Forward; p <= coded.Gradient; p++ {
		if p == coded.Backward && !f.backward() {
			continue
		}
		_, ins, outs := f.splits(p)
		in, out = max(in, ins), max(out, outs)
	}
	return in, out
}

func (f factorCut) backward() bool {
	_, r := f.config.copies(1)
	return r != nil
}

// ShippedChunks is the largest number of chunks of a layer with a shipped placement: the
// columns of the smallest result, or the rows of the gradient.
func ShippedChunks(c Config, code *coded.Code) int {
	f := newFactorCut(c, code)
	in, out := f.features()
	most := min(coded.Blocks(out, f.q).Size, coded.Blocks(out, f.m).Size)
	if f.backward() {
		most = min(most, coded.Blocks(in, f.q).Size)
	}
	return most
}
