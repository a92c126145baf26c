package nn

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/coda-ml/coda/internal/kernel"
)

// Graph is what a model's Forward builds on: a gorgonia graph for one batch
// size and one mode (training or evaluation), together with the names of the
// model's modules. One goroutine uses it.
type Graph struct {
	ex       *gorgonia.ExprGraph
	salt     uint32 // part of every hash, see errCollision
	training bool
	placed   bool      // placed layers compute on their placement
	norms    gradNorms // of the network, nil if they are not wanted
	batch    int
	names    map[any]string // of modules and parameters, by pointer
	run      runContext

	ops      []*op // in the order of creation, which is that of execution
	params   []*boundParam
	buffers  []*boundBuffer
	counters []*Counter
	needs    map[*gorgonia.Node]bool
	inputs   int
	counts   map[string]int // of unnamed modules, by kind
}

// boundParam is a parameter as an input of the graph.
type boundParam struct {
	param *Param
	name  string
	node  *gorgonia.Node
}

// errCollision says that two nodes have the same 32-bit hash. Gorgonia would
// silently take one for the other, so the graph is built again with another
// salt. Among 4,000 nodes that happens once in 500 graphs.
var errCollision = errors.New("two nodes of the graph have the same hash")

func newGraph(pool *kernel.Pool, names map[any]string, batch int, training bool, salt uint32) *Graph {
	return &Graph{
		ex:       gorgonia.NewGraph(),
		salt:     salt,
		training: training,
		placed:   training,
		batch:    batch,
		names:    names,
		run:      runContext{pool: pool, ws: new(kernel.Workspace)},
		needs:    make(map[*gorgonia.Node]bool),
		counts:   make(map[string]int),
	}
}

// Training tells whether the graph is for training: it will have gradients,
// and placed layers compute on their cluster, which Config.Placed asks of the
// others as well.
func (g *Graph) Training() bool { return g.training }

// Batch returns the number of samples that the graph is for.
func (g *Graph) Batch() int { return g.batch }

// Name returns the dotted name of a module (a pointer) in the model, or
// fallback for one that the model does not hold.
func (g *Graph) Name(m Module, fallback string) string {
	if hashable(m) && g.names[m] != "" {
		return g.names[m]
	}
	return fallback
}

// number names a module that has no identity of its own: "maxpool2" is the
// second one in the order of Forward.
func (g *Graph) number(kind string) string {
	g.counts[kind]++
	return fmt.Sprintf("%s%d", kind, g.counts[kind])
}

// Param returns the parameter's node. A parameter that is used more than once
// has one node; its gradients are summed.
func (g *Graph) Param(p *Param) (*gorgonia.Node, error) {
	if p == nil {
		return nil, errors.New("nn: nil parameter")
	}
	for _, b := range g.params {
		if b.param == p {
			return b.node, nil
		}
	}
	name, ok := g.names[p]
	if !ok {
		return nil, fmt.Errorf("nn: a parameter of shape %v is not found by walking the model: its field must be exported", p.Value.Shape)
	}
	if want := size(p.Value.Shape); len(p.Value.Data) != want || want == 0 {
		return nil, fmt.Errorf("nn: parameter %s: %d numbers for shape %v", name, len(p.Value.Data), p.Value.Shape)
	}
	n, err := g.input(name, newDense(p.Value.Shape, p.Value.Data))
	if err != nil {
		return nil, err
	}
	g.needs[n] = !p.Frozen && !p.Remote
	g.params = append(g.params, &boundParam{param: p, name: name, node: n})
	return n, nil
}

// input adds an input node with a value of its own.
func (g *Graph) input(name string, v *tensor.Dense) (*gorgonia.Node, error) {
	unique := fmt.Sprintf("%s.%d.%d", name, g.salt, g.inputs)
	g.inputs++
	before := len(g.ex.AllNodes())
	n := gorgonia.NewTensor(g.ex, v.Dtype(), v.Dims(), gorgonia.WithShape(v.Shape()...),
		gorgonia.WithName(unique), gorgonia.WithValue(v))
	if len(g.ex.AllNodes()) != before+1 {
		return nil, errCollision
	}
	return n, nil
}

// ticket adds a pseudo-parameter: an input of shape [1] that counts as
// trainable but has no value worth reading and no gradient for an optimiser.
// An operation that takes a ticket is differentiated in any case, also when
// no gradient of its other inputs is wanted; a placed layer uses it to send
// the gradient of its output to where its weights are.
func (g *Graph) ticket(layer string) (*gorgonia.Node, error) {
	n, err := g.input(layer+".ticket", newDense([]int{1}, make([]float32, 1)))
	if err != nil {
		return nil, err
	}
	g.needs[n] = true
	return n, nil
}

// apply adds an operation to the graph and returns its output.
func (g *Graph) apply(s opSpec) (*gorgonia.Node, error) {
	o := &op{opSpec: s, graph: g, seq: len(g.ops)}
	if (s.run == nil) == (s.value == nil) {
		return nil, fmt.Errorf("nn: %v: exactly one of run and value must be set", o)
	}
	for i, n := range s.in {
		if n == nil {
			return nil, fmt.Errorf("nn: %v: input %d is nil", o, i)
		}
	}
	o.args = make([][]float32, len(s.in))
	o.scalars = make([]float32, len(s.in))
	o.sizes = make([]int, len(s.in))
	for i, n := range s.in {
		o.sizes[i] = size(n.Shape())
	}
	if s.shape == nil {
		o.scalar = gorgonia.NewF32(0)
	}
	o.want = make([]bool, len(s.in))
	for i, d := range s.diff {
		o.want[i] = d && g.needsGrad(s.in[i])
	}
	n, err := gorgonia.ApplyOp(o, s.in...)
	if err != nil {
		return nil, fmt.Errorf("nn: %v: %w", o, err)
	}
	if n.Op() != gorgonia.Op(o) {
		return nil, errCollision
	}
	o.node = n
	g.ops = append(g.ops, o)
	g.needs[n] = slices.Contains(o.want, true)
	return n, nil
}

// needsGrad tells whether something trainable hangs on the node.
func (g *Graph) needsGrad(n *gorgonia.Node) bool {
	need, known := g.needs[n]
	if known {
		return need
	}
	// An operation of gorgonia's own, applied by a user's module.
	if sd, ok := n.Op().(gorgonia.SDOp); ok {
		children := g.children(n)
		for i, d := range sd.DiffWRT(len(children)) {
			if d && g.needsGrad(children[i]) {
				need = true
				break
			}
		}
	}
	g.needs[n] = need
	return need
}

// children returns the inputs of a node, in order.
func (g *Graph) children(n *gorgonia.Node) []*gorgonia.Node {
	if o, ok := n.Op().(*op); ok {
		return o.in
	}
	var list []*gorgonia.Node
	for it := g.ex.From(n.ID()); it != nil && it.Next(); {
		list = append(list, it.Node().(*gorgonia.Node))
	}
	return list
}

// check looks for nodes that gorgonia's compiler would merge.
func (g *Graph) check() error {
	nodes := g.ex.AllNodes()
	seen := make(map[uint32]bool, len(nodes))
	for _, n := range nodes {
		if seen[n.Hashcode()] {
			return errCollision
		}
		seen[n.Hashcode()] = true
	}
	return nil
}
