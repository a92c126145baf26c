package dist

import (
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// How well the results of a round agree is told where it costs next to nothing: by
// results that came although their chunk had enough, which are kept until it is decoded
// (see coded.Agreement), and by Freivalds' test, which compares sums anyway. Nobody is
// asked, or waited for, on account of it.

const (
	// maxCompared bounds the chunks of a round whose results are compared, and
	// comparedValues the elements of each that are, so that it takes some microseconds.
	maxCompared    = 4
	comparedValues = 256
	// comparedWorkers bounds the codes whose results are compared: the checks of a set,
	// which is seldom the same in large ones, take time by the cube of its size.
	comparedWorkers = 64
	// largeResidual is above what rounding explains, ten times what coded.Locate takes
	// for it, unless products cancel nearly all of their terms.
	largeResidual = 10 * coded.DefaultTolerance
)

// newAgreement returns what compares the results of a code, nil for nothing.
func newAgreement(code *coded.Code) *coded.Agreement {
	if code.N() > comparedWorkers {
		return nil
	}
	return coded.NewAgreement(code)
}

// spareResult is a result that came when its chunk had enough.
type spareResult struct {
	by          *link
	chunk, slot int
}

// spare keeps a result that has just come too late, if it is to be compared.
func (c *Coordinator) spare(l *link, r *round, m *Message) {
	known := slices.ContainsFunc(r.spares, func(s spareResult) bool { return s.chunk == m.Chunk })
	if known || len(r.spares) >= maxCompared || len(m.Tensors) != 1 || r.place.agreement == nil || !r.cover.late(l.slot, m.Chunk) {
		return
	}
	r.results[m.Chunk][l.slot] = c.buffers.adopt(m.Tensors[0])
	m.Tensors[0] = coded.Tensor{}
	r.spares = append(r.spares, spareResult{l, m.Chunk, l.slot})
}

// noteResidual takes note of the test of an answer that was passed.
func (c *Coordinator) noteResidual(l *link, r *round, residual float64) {
	r.residual = max(r.residual, residual)
	r.compared++
	if residual > largeResidual {
		c.warnResidual(r, residual, []string{l.host})
	}
}

// compare compares what there is to spare when a round is decoded.
func (c *Coordinator) compare(r *round) {
	a := r.place.agreement
	if a == nil {
		return
	}
	compared := 0
	for chunk := range r.sets {
		have := r.compares(chunk)
		if compared == maxCompared || len(have) == 0 || !a.Spare(have) {
			continue
		}
		compared++
		residual, checks, err := a.Residual(have, r.sample(chunk, have))
		if err != nil || checks == 0 {
			continue // of results that do not fit each other the decoder tells
		}
		if math.IsNaN(residual) {
			residual = math.Inf(1)
		}
		r.residual = max(r.residual, residual)
		r.compared++
		if residual > largeResidual {
			c.mu.Lock()
			c.warnResidual(r, residual, r.workersOf(chunk))
			c.mu.Unlock()
		}
	}
}

// compares lists the slots whose results of a chunk are there, in order.
func (r *round) compares(chunk int) []int {
	have := slices.Clone(r.sets[chunk])
	for _, s := range r.spares {
		if s.chunk == chunk {
			have = append(have, s.slot)
		}
	}
	slices.Sort(have)
	return have
}

// sample takes the same elements of the results of slots, others in every round. A
// slot's results lie one after the other.
func (r *round) sample(chunk int, have []int) (results [][]float32) {
	for _, slot := range have {
		data, n := r.results[chunk][slot].tensor.Data, r.place.code.Results(slot)
		size := len(data) / n
		some := min(size, comparedValues)
		at := 0
		if size > some {
			at = int((r.id * comparedValues) % uint64(size-some+1))
		}
		for i := range n {
			results = append(results, data[i*size+at:i*size+at+some])
		}
	}
	return results
}

// workersOf names the workers whose results of a chunk are there, in order.
func (r *round) workersOf(chunk int) (hosts []string) {
	add := func(l *link) {
		if !slices.Contains(hosts, l.host) {
			hosts = append(hosts, l.host)
		}
	}
	for _, s := range r.spent {
		if s.chunk == chunk {
			add(s.by)
		}
	}
	for _, s := range r.spares {
		if s.chunk == chunk {
			add(s.by)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// warnResidual logs that one of some workers is wrong, unless all of them have been
// named before.
func (c *Coordinator) warnResidual(r *round, residual float64, hosts []string) {
	if len(c.doubted) > maxSuspects {
		clear(c.doubted)
	}
	named := true
	for _, host := range hosts {
		named = named && c.doubted[host]
		c.doubted[host] = true
	}
	if named {
		return
	}
	log := c.cfg.Log.With("layer", r.Layer, "product", r.Product.String(), "step", r.Step)
	c.notices.post(func() {
		log.Warn("results do not agree: one of these workers, which are not named again, may compute wrongly or have drifted",
			"workers", hosts, "residual", fmt.Sprintf("%.3g", residual))
	})
}
