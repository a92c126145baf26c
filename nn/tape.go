package nn

import "gorgonia.org/gorgonia"

// tape executes a graph all of whose operations are ours, one after another in
// the order in which they were made, on the caller's goroutine. Gorgonia's tape
// machine computes the same, but makes a list of inputs and a line of a log that
// nobody reads for each operation: 65 kB a step of ResNet-56. It is for graphs
// with operations of gorgonia's own.
type tape struct {
	ops    []*op
	values []gorgonia.Value // of the operations, by sequence number; nil before they have run
	in     []gorgonia.Value // of the operation that runs
}

var _ gorgonia.VM = (*tape)(nil)

func newTape(g *Graph) *tape {
	most := 0
	for _, o := range g.ops {
		most = max(most, len(o.in))
	}
	return &tape{ops: g.ops, values: make([]gorgonia.Value, len(g.ops)), in: make([]gorgonia.Value, most)}
}

// RunAll runs the operations up to the first that fails.
func (t *tape) RunAll() error {
	for _, o := range t.ops {
		in := t.in[:len(o.in)]
		for i, n := range o.in {
			in[i] = t.value(n)
		}
		v, err := o.Do(in...)
		if err != nil {
			return err
		}
		t.values[o.seq] = v
	}
	return nil
}

// value returns what a node holds: an operation's is that of the last run.
func (t *tape) value(n *gorgonia.Node) gorgonia.Value {
	if o, ok := n.Op().(*op); ok {
		return t.values[o.seq]
	}
	return n.Value()
}

// Reset forgets the last run.
func (t *tape) Reset() { clear(t.values) }

// Close does nothing: a tape has no resources but memory.
func (t *tape) Close() error { return nil }

// ours tells whether no operation is gorgonia's own.
func (g *Graph) ours() bool {
	for _, n := range g.ex.AllNodes() {
		if _, ours := n.Op().(*op); n.Op() != nil && !ours && n.Op().Arity() > 0 { // no constant
			return false
		}
	}
	return true
}
