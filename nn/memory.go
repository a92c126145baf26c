package nn

import "slices"

// view adds a node for a further output of the operation of another node, which
// computes it into the buffer of the operation that is returned: an operation of
// gorgonia's has one output.
func (g *Graph) view(s opSpec, by *op) (*op, error) {
	s.in = append(s.in[:0:0], by.node)
	s.run = func(*runContext, [][]float32, []float32) error { return nil }
	n, err := g.apply(s)
	if err != nil {
		return nil, err
	}
	o := n.Op().(*op)
	o.producer = by
	return o, nil
}

// viewBuffer returns where a further output is wanted; nil for none.
func viewBuffer(o *op) []float32 {
	if o == nil {
		return nil
	}
	return o.buffer()
}

// shareMemory lets operations whose outputs are not needed at the same time use
// the same memory: all but the model's output in evaluation, the gradients of
// activations in training. (Training needs most of the forward pass for the
// backward pass, and all of it to find the first number that is not finite.)
// The memory that was used last is used again first, while it is in a cache.
//
// What leaves the graph keeps memory of its own: the output, gradients of
// parameters, and whatever an operation hands on as a Value, since an executor
// may read it later. So does everything in a graph with operations that are not
// ours, of which it is not known whether they return their inputs.
func (p *program) shareMemory() {
	g := p.g
	if !g.ours() {
		return
	}
	first := 0
	if p.training {
		first = p.forward
	}
	last := p.lastUses()
	views := make(map[*op][]*op)
	for _, o := range g.ops {
		if o.producer != nil {
			views[o.producer] = append(views[o.producer], o)
		}
	}
	var memory arena
	ends := make([][][]float32, len(g.ops)) // what is given back after an operation
	for i := first; i < len(g.ops); i++ {
		o := g.ops[i]
		for _, out := range append([]*op{o}, views[o]...) {
			if out.buf != nil || out.shape == nil || last[out.seq] == forever || out.producer != nil && out.producer != o {
				continue
			}
			end := max(i, last[out.seq])
			m := memory.take(size(out.shape))
			out.bind(m)
			ends[end] = append(ends[end], m)
		}
		for _, m := range ends[i] {
			memory.give(m)
		}
	}
}

// forever is the last use of what is read after the run.
const forever = int(^uint(0) >> 1)

// lastUses returns for each operation the place of the last one that reads its
// output; 0 if there is none.
func (p *program) lastUses() []int {
	last := make([]int, len(p.g.ops))
	for i, o := range p.g.ops {
		if o.value != nil {
			last[i] = forever
		}
		for _, n := range o.in {
			in, ok := n.Op().(*op)
			switch {
			case !ok:
			case o.value != nil:
				last[in.seq] = forever
			default:
				last[in.seq] = max(last[in.seq], i)
			}
		}
	}
	last[p.logits.seq] = forever
	for _, pg := range p.grads {
		if o, ok := pg.node.Op().(*op); ok {
			last[o.seq] = forever
		}
	}
	return last
}

// arena is memory that is free at a point of the plan, latest last.
type arena struct{ free [][]float32 }

// take returns memory for n numbers: the piece that was freed last among those
// that are large enough and not more than twice as large, or new memory.
func (a *arena) take(n int) []float32 {
	for i := len(a.free) - 1; i >= 0; i-- {
		if m := a.free[i]; cap(m) >= n && cap(m) <= 2*n {
			a.free = slices.Delete(a.free, i, i+1)
			return m[:n]
		}
	}
	return make([]float32, n)
}

func (a *arena) give(m []float32) { a.free = append(a.free, m[:cap(m)]) }
