package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// gradNorm finds the norm of a gradient that only workers have, over the runs of a
// step, from the operands that they were sent.
type gradNorm interface {
	// add takes the operands of the product of a run, in place of those of a run
	// that has not been counted.
	add(rc *runContext, x, dy []float32, c kernel.Conv)
	count() // the run has succeeded
	reset() // a new step
	// sumSquares returns the sum of the squares of what was counted.
	sumSquares(*kernel.Pool) float64
}

// gradNorms are those of a network, by weight.
type gradNorms map[*Param]gradNorm

// of returns that of a layer.
func (m gradNorms) of(p Product) gradNorm {
	if m[p.Weight] == nil {
		shape := p.Weight.Value.Shape
		if p.Conv == nil {
			m[p.Weight] = &linearNorm{in: shape[1], out: shape[0]}
		} else {
			m[p.Weight] = &convNorm{sum: make([]float32, p.Weight.Size()), last: make([]float32, p.Weight.Size())}
		}
	}
	return m[p.Weight]
}

func (m gradNorms) reset() {
	for _, n := range m {
		n.reset()
	}
}

func (m gradNorms) count() {
	for _, n := range m {
		n.count()
	}
}

// RemoteNorms tells whether the network keeps what SumSquares needs.
func (n *Network) RemoteNorms() bool { return n.norms != nil }

// SumSquares returns the sum of the squares of the gradient of a Remote parameter,
// summed as by Accumulate, of the steps since the last Train: what clipping by the
// global norm needs of a gradient that only the workers of its layer have. The
// network must have Config.RemoteNorms.
//
// It is computed here, from the operands of the layer's two products: so it is that of the
// whole gradient, whoever of the workers answers. With b samples since Train, a Linear of
// few of them takes
//
//	‖dW‖² = ‖Σ_s dy_s x_sᵀ‖² = Σ_s Σ_t (x_s·x_t)(dy_s·dy_t)
//
// b²(in+out) multiplications in place of the gradient's b·in·out; with more, and for a
// Conv2d, the gradient itself is computed (of which two copies are kept in memory).
func (n *Network) SumSquares(p *Param) (float64, error) {
	norm := n.norms[p]
	if norm == nil {
		return 0, fmt.Errorf("nn: norm of a gradient of shape %v: want the weight of a Resident layer, a training step before and Config.RemoteNorms", p.Value.Shape)
	}
	return norm.sumSquares(n.pool), nil
}

// gradNorm adds the node that notes the operands of a layer, if they are wanted. It has
// a place between the start of the backward product and its wait.
func (g *Graph) gradNorm(p Product, x, dy *gorgonia.Node) error {
	if g.norms == nil {
		return nil
	}
	var c kernel.Conv
	if p.Conv != nil {
		var err error
		if c, err = p.Conv.kernel(p.Layer, p.Weight.Value.Shape, x.Shape()); err != nil {
			return err
		}
	}
	norm := g.norms.of(p)
	_, err := g.apply(opSpec{
		layer: p.Layer, kind: "norm of weight gradient", in: []*gorgonia.Node{x, dy}, shape: []int{1},
		run: func(rc *runContext, v [][]float32, _ []float32) error {
			norm.add(rc, v[0], v[1], c)
			return nil
		},
	})
	return err
}

// linearNorm keeps the samples of a step.
type linearNorm struct {
	in, out       int
	x, dy         []float32 // samples that count, and those of the last run
	counted, last int
	scratch       [2][]float32
}

func (l *linearNorm) reset() { l.counted, l.last = 0, 0 }

func (l *linearNorm) add(_ *runContext, x, dy []float32, _ kernel.Conv) {
	l.x = append(l.x[:l.counted*l.in], x...)
	l.dy = append(l.dy[:l.counted*l.out], dy...)
	l.last = len(x) / l.in
}

func (l *linearNorm) count() { l.counted, l.last = l.counted+l.last, 0 }

func (l *linearNorm) sumSquares(pool *kernel.Pool) float64 {
	rows := l.counted
	if rows*(l.in+l.out) >= l.in*l.out {
		dw := l.room(0, l.in*l.out)
		kernel.Gemm(pool, true, false, l.out, l.in, rows, 1, l.dy, l.out, l.x, l.in, 0, dw, l.in)
		return kernel.SumSquares(dw)
	}
	xx, dd := l.room(0, rows*rows), l.room(1, rows*rows)
	kernel.Gemm(pool, false, true, rows, rows, l.in, 1, l.x, l.in, l.x, l.in, 0, xx, rows)
	kernel.Gemm(pool, false, true, rows, rows, l.out, 1, l.dy, l.out, l.dy, l.out, 0, dd, rows)
	var sum float64
	for i, v := range xx {
		sum += float64(v) * float64(dd[i])
	}
	if sum < 0 { // by rounding, where the samples cancel; NaN stays
		return 0
	}
	return sum
}

// room returns scratch memory of n numbers.
func (l *linearNorm) room(i, n int) []float32 {
	if cap(l.scratch[i]) < n {
		l.scratch[i] = make([]float32, n)
	}
	return l.scratch[i][:n]
}

// convNorm keeps the gradient of a step.
type convNorm struct {
	sum, last []float32 // of the runs that count, and of the last one until it does
	runs      int       // that count
	ran       bool      // last is to be counted
}

func (v *convNorm) reset() { v.runs, v.ran = 0, false }

func (v *convNorm) add(rc *runContext, x, dy []float32, c kernel.Conv) {
	kernel.ConvBackwardParams(rc.pool, c, x, dy, v.last, nil, rc.ws)
	v.ran = true
}

func (v *convNorm) count() {
	switch {
	case !v.ran:
		return
	case v.runs == 0:
		v.sum, v.last = v.last, v.sum
	default:
		kernel.Add(v.sum, v.sum, v.last)
	}
	v.runs, v.ran = v.runs+1, false
}

func (v *convNorm) sumSquares(*kernel.Pool) float64 {
	if v.runs == 0 {
		return 0
	}
	return kernel.SumSquares(v.sum)
}
