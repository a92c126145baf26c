package coded

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

const (
	// DefaultMaxCond is the largest condition number that a Decoder accepts if
	// it is not told otherwise. A float32 result has a relative rounding of
	// 6e-8 and an error of at most about 3.5 times that times the condition
	// number, typically a tenth of it: at 1e5 two to three digits are left.
	DefaultMaxCond = 1e5
	// DefaultCacheSize is the number of sets whose weights a Decoder keeps if it
	// is not told otherwise. All 210 sets of a (10,6) code fit.
	DefaultCacheSize = 256
)

// DecoderConfig holds what a Decoder can be told.
type DecoderConfig struct {
	MaxCond   float64 // 0: DefaultMaxCond; +Inf: no limit
	CacheSize int     // sets of results; 0 or less: DefaultCacheSize
}

// Decoder computes decode weights and keeps those of the sets used last. It is
// safe for concurrent use: one mutex guards the cache and is held while weights
// are computed, so that they are computed once.
type Decoder struct {
	code    *Code
	maxCond float64

	mu    sync.Mutex
	cache setCache[*Weights]
}

// NewDecoder returns a decoder with an empty cache.
func NewDecoder(c *Code, config DecoderConfig) *Decoder {
	if config.MaxCond == 0 {
		config.MaxCond = DefaultMaxCond
	}
	if config.CacheSize <= 0 {
		config.CacheSize = DefaultCacheSize
	}
	return &Decoder{code: c, maxCond: config.MaxCond, cache: newSetCache[*Weights](c.N(), config.CacheSize)}
}

// Code returns the code that is decoded.
func (d *Decoder) Code() *Code { return d.code }

// Weights returns the decode weights of a set of tasks, listed in any order:
// exact ones if the set decodes, of least norm if it holds more than it needs.
// All callers get the same ones, which must not be changed.
//
// If the set does not decode, the weights are those of the best estimate, in
// the sense of Weights.Residual, and the error is an *InsufficientError. If they
// amplify rounding too much, the error is a *ConditionError. In both cases the
// weights are returned as well. A task that the code does not have, or that is
// listed twice, gives an error and no weights.
func (d *Decoder) Weights(have []int) (*Weights, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, known, valid := d.cache.find(have)
	switch {
	case !valid:
		return nil, fmt.Errorf("coded: weights: %w", d.code.checkSet(have))
	case known:
		return w, d.judge(w)
	}
	sorted := slices.Clone(have)
	slices.Sort(sorted)
	w, err := d.code.solve(sorted)
	if err != nil {
		return nil, err
	}
	d.cache.keep(w)
	return w, d.judge(w)
}

func (d *Decoder) judge(w *Weights) error { return d.code.judge(w, d.maxCond) }

// judge gives the error that belongs to weights.
func (c *Code) judge(w *Weights, maxCond float64) error {
	missing := w.undecoded()
	if c.def.Approximate {
		missing = nil
	}
	if len(missing) > 0 && (c.def.Threshold == 0 || len(w.Have) < c.def.Threshold) {
		return &InsufficientError{
			Code: c.String(), Have: w.Have, Threshold: c.def.Threshold,
			Missing: missing, Outputs: len(c.wanted), Residual: w.Residual,
		}
	}
	cond := w.Cond
	if len(missing) > 0 { // enough in exact arithmetic, singular in float64
		cond = math.Inf(1)
	}
	if !(cond <= maxCond) {
		return &ConditionError{Code: c.String(), Have: w.Have, Cond: cond, Limit: maxCond}
	}
	return nil
}
