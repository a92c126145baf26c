package shard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coda-ml/coda/coded"
)

// factorCut tells how the factors of a layer's products are cut by a code for C = A B.
type factorCut struct {
	coded.LayerCut
	config Config
}

func newFactorCut(c Config, code *coded.Code) factorCut {
	cut, _ := code.LayerCut()
	return factorCut{cut, c}
}

// features returns the numbers of inputs and outputs of the layer.
func (f factorCut) features() (in, out int) {
	w, _ := f.config.copies(1)
	return w[1], w[0]
}

// block returns the layer of one block of inputs and one of outputs.
func (f factorCut) block(p coded.Product) Config {
	_, ins, outs := f.Blocks(p)
	in, out := f.features()
	in, out = coded.Blocks(in, ins).Size, coded.Blocks(out, outs).Size
	if c, ok := f.config.(Conv2dConfig); ok {
		c.In, c.Out, c.Backward = in, out, true
		return c
	}
	return LinearConfig{In: in, Out: out, Backward: true}
}

// ValidateShipped tells, all at once, what speaks against a shipped placement of a
// layer: a code that has no coded.LayerCut, groups, fewer features than blocks, and a number
// of chunks.
func ValidateShipped(c Config, code *coded.Code, chunks int) error {
	if _, ok := code.LayerCut(); !ok {
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
	_, ins, outs := f.Finest(f.backward())
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

func (f factorCut) backward() bool {
	_, r := f.config.copies(1)
	return r != nil
}

// ShippedChunks is the largest number of chunks of a layer with a shipped placement: the
// columns of the smallest result, or the rows of the gradient.
func ShippedChunks(c Config, code *coded.Code) int {
	f := newFactorCut(c, code)
	in, out := f.features()
	most := min(coded.Blocks(out, f.Q).Size, coded.Blocks(out, f.M).Size)
	if f.backward() {
		most = min(most, coded.Blocks(in, f.Q).Size)
	}
	return most
}
