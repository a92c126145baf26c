package optim

import (
	"errors"
	"slices"

	"github.com/coda-ml/coda/internal/kernel"
)

// EMAConfig is the configuration of NewEMA.
type EMAConfig struct {
	Decay float64 // part of the average that an update keeps, below 1; 0 means 0.999
	// WarmUp keeps less at first, so that the initial weights are soon
	// forgotten: at update t at most (1+t)/(10+t), as in TensorFlow.
	WarmUp bool
}

// EMA is an exponential moving average of the weights,
//
//	average = decay*average + (1-decay)*weight
//
// which starts as a copy of the weights (Polyak and Juditsky, 1992, averaged
// uniformly). It often generalises better than the weights themselves.
type EMA struct {
	config  EMAConfig
	memory  memory
	kept    [][]float32 // the weights while the averages are in their place
	in      bool        // they are
	factors [2]float32
	terms   [2][]float32
}

// NewEMA returns an average of nothing, or an error that lists every problem of c.
func NewEMA(c EMAConfig) (*EMA, error) {
	orDefault(&c.Decay, 0.999)
	var p problems
	p.within("decay", c.Decay, 1)
	if err := p.err("EMA"); err != nil {
		return nil, err
	}
	e := &EMA{config: c, memory: newMemory("EMA", func(string) settings { return settings{} }, Average)}
	e.memory.gradients = false
	return e, nil
}

var errAveragesIn = errors.New("optim: EMA: the averages are in the place of the weights")

// Update takes the values of the parameters after an optimiser's step into the
// average. Gradients are not looked at.
func (e *EMA) Update(params []Param) error {
	if e.in {
		return errAveragesIn
	}
	if err := e.memory.prepare(e.memory.updates+1, params); err != nil {
		return err
	}
	decay := e.config.Decay
	if t := float64(e.memory.updates + 1); e.config.WarmUp {
		decay = min(decay, (1+t)/(10+t))
	}
	e.factors = [2]float32{float32(decay), float32(1 - decay)}
	for _, p := range params {
		s := e.memory.slots[p.Name]
		if s.born == e.memory.round {
			copy(s.data[0], p.Value)
			continue
		}
		e.terms = [2][]float32{s.data[0], p.Value}
		kernel.Combine(s.data[0], e.factors[:], e.terms[:])
	}
	e.terms = [2][]float32{}
	e.memory.updates++
	return nil
}

// With puts the averages in the place of the values of the parameters, runs f,
// for an evaluation, and puts the values back, to the bit, even if f fails or
// panics; the error is that of f. A parameter that was never averaged is an error, before f runs.
// Running statistics of normalisation layers stay those of the weights, unless
// they are averaged as parameters too.
func (e *EMA) With(params []Param, f func() error) error {
	if e.in {
		return errAveragesIn
	}
	var bad problems
	for _, p := range params {
		s, ok := e.memory.slots[p.Name]
		bad.want(ok, "parameter %s has no average", p.Name)
		bad.want(!ok || s.size == len(p.Value), "parameter %s has %d values, not the size of its average", p.Name, len(p.Value))
	}
	if err := bad.err("EMA"); err != nil {
		return err
	}
	e.in = true
	e.kept = growTo(e.kept, len(params))
	for i, p := range params {
		e.kept[i] = append(e.kept[i][:0], p.Value...)
		copy(p.Value, e.memory.slots[p.Name].data[0])
	}
	defer func() {
		for i, p := range slices.Backward(params) { // right even if one is given twice
			copy(p.Value, e.kept[i])
		}
		e.in = false
	}()
	return f()
}

// Updates returns how often weights have been taken into the average: With has
// nothing to put in their place before the first time.
func (e *EMA) Updates() int { return e.memory.updates }

// State returns a copy of the averages, "fc1.weight.ema", for a checkpoint.
func (e *EMA) State() State { return e.memory.state() }

// LoadState replaces the averages. A state that is refused changes nothing.
func (e *EMA) LoadState(s State) error {
	if e.in {
		return errAveragesIn
	}
	return e.memory.load(s)
}
