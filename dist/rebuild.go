package dist

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// A repair whose weights would amplify the rounding of its donors too much is
// not made. Instead the whole layer is rebuilt after the next update: the states
// of all fresh slots are decoded into the blocks, in float64, and every slot is
// encoded anew, so that the shards are one codeword again.

// rebuildPause is how long a layer is left as it is after a rebuild failed.
const rebuildPause = 10 * time.Second

// rebuildAll rebuilds the layers that want it, or those that a recorded run has
// rebuilt after this update. The training loop waits for it.
func (c *Coordinator) rebuildAll(ctx context.Context) error {
	c.mu.Lock()
	order, limit := slices.Clone(c.order), c.deadline.limit()
	c.mu.Unlock()
	for _, name := range order {
		c.mu.Lock()
		p := c.layers[name]
		set := c.rebuildFrom(p)
		c.mu.Unlock()
		if set == nil {
			continue
		}
		bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
		err := c.rebuild(bounded, p, set)
		cancel()
		switch {
		case err == nil:
		case c.cfg.Replay != nil || ctx.Err() != nil:
			return fmt.Errorf("dist: rebuild layer %s: %w", name, err)
		default:
			c.cfg.Log.Warn("layer not rebuilt", "layer", name, "err", err)
			c.mu.Lock()
			p.roughUntil = time.Now().Add(rebuildPause)
			c.mu.Unlock()
		}
	}
	return nil
}

// rebuildFrom returns the slots that a layer is to be rebuilt from now, nil if
// it is not.
func (c *Coordinator) rebuildFrom(p *placement) []int {
	if c.cfg.Replay != nil {
		return c.cfg.Replay.rebuilt(p.layer.Name, c.version)
	}
	if !p.rough || time.Now().Before(p.roughUntil) {
		return nil
	}
	if set := c.fresh(p.layer.Name, c.version); sufficient(p.code, set) {
		return set
	}
	return nil
}

// rebuild decodes a layer's blocks from a set of slots and encodes every slot
// anew.
func (c *Coordinator) rebuild(ctx context.Context, p *placement, set []int) error {
	fetched, err := c.fetchFrom(ctx, p.layer.Name, fetch{only: set})
	if err != nil {
		return err
	}
	states, err := reencode(p.code, fetched)
	if err != nil {
		return err
	}
	c.mu.Lock()
	version := c.version // of this goroutine alone
	c.mu.Unlock()
	if err := c.follow(p, version, states); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	name := p.layer.Name
	c.cancelRepairs(func(r *repair) bool { return r.layer == name })
	c.lastOp++
	p.id, p.version, p.pos, p.states, p.rough = c.lastOp, c.version, c.log.newest(), states, false
	for l := range c.links() {
		l.dropLayer(name)
	}
	if c.cfg.Record != nil {
		c.cfg.Record.rebuild(name, c.version, set)
	}
	c.stats.Rebuilds++
	c.heal()
	return nil
}

// reencode gives the states of all slots from those of a sufficient set.
func reencode(code *coded.Code, have []coded.ShardState) ([][]coded.Tensor, error) {
	set := make([]int, len(have))
	for i, s := range have {
		set[i] = s.Slot
		if len(s.State) != len(have[0].State) {
			return nil, fmt.Errorf("slot %d has %d tensors, slot %d has %d", s.Slot, len(s.State), have[0].Slot, len(have[0].State))
		}
		for t := range s.State {
			if !slices.Equal(s.State[t].Shape, have[0].State[t].Shape) {
				return nil, fmt.Errorf("tensor %d of slot %d has shape %v, of slot %d %v", t, s.Slot, s.State[t].Shape, have[0].Slot, have[0].State[t].Shape)
			}
		}
	}
	decode, err := coded.NewDecoder(code, coded.DecoderConfig{MaxCond: math.Inf(1)}).Weights(set)
	if err != nil {
		return nil, err
	}
	states := make([][]coded.Tensor, code.N())
	for slot := range states {
		weights := make([]float64, len(have))
		for block, g := range code.Row(slot) {
			for i := range weights {
				weights[i] += g * decode.D[block][i]
			}
		}
		for t, like := range have[0].State {
			states[slot] = append(states[slot], weighted(like.Shape, weights, func(i int) []float32 { return have[i].State[t].Data }))
		}
	}
	return states, nil
}

// weighted adds up terms with weights, in float64 and in their order.
func weighted(shape []int, weights []float64, term func(i int) []float32) coded.Tensor {
	sum := coded.NewTensor(shape...)
	acc := make([]float64, len(sum.Data))
	for i, w := range weights {
		for j, v := range term(i) {
			acc[j] += w * float64(v)
		}
	}
	for j, v := range acc {
		sum.Data[j] = float32(v)
	}
	return sum
}
