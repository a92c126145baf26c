package nn

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteDot writes the graph of a training step on so many samples in the language
// of Graphviz: a box for every operation, in the order of execution, with its layer,
// what it computes and the shape of its output. What talks to workers is coloured:
// starts of rounds orange, waits green, encodings blue; a dashed box is the start of
// a round whose result is a gradient that the optimiser waits for. Layers must have
// been placed (see Place); nothing is computed.
func (n *Network) WriteDot(w io.Writer, batch int) error {
	if batch < 1 {
		return fmt.Errorf("nn: graph for %d samples, want at least 1", batch)
	}
	p, err := n.build(batch, true)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph step {\n  rankdir=TB; node [shape=box, style=filled, fillcolor=white, fontname=\"Helvetica\"];\n")
	fmt.Fprintf(b, "  x [label=%q, shape=ellipse];\n", fmt.Sprint("x\n", append([]int{batch}, n.shape...)))
	gradients := make(map[*op]string)
	for _, g := range p.grads {
		if o, ok := g.node.Op().(*op); ok {
			gradients[o] = g.name
		}
	}
	named := map[string]bool{}
	for _, o := range p.g.ops {
		fmt.Fprintf(b, "  n%d [label=%q%s];\n", o.seq, fmt.Sprint(o.layer, "\n", o.kind, "\n", o.shape), dotStyle(o, gradients[o] != ""))
		for _, in := range o.in {
			if from, ok := in.Op().(*op); ok {
				fmt.Fprintf(b, "  n%d -> n%d;\n", from.seq, o.seq)
			} else if in.Name() != "" {
				source := p.g.sourceName(in.ID())
				if source != "x" && !named[source] {
					named[source] = true
					fmt.Fprintf(b, "  %q [shape=ellipse];\n", source)
				}
				fmt.Fprintf(b, "  %q -> n%d;\n", source, o.seq)
			}
		}
		if name := gradients[o]; name != "" {
			fmt.Fprintf(b, "  %q [shape=ellipse];\n  n%d -> %q;\n", "gradient of "+name, o.seq, "gradient of "+name)
		}
	}
	fmt.Fprintln(b, "}")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("nn: write graph: %w", err)
	}
	return nil
}

// sourceName names an input of the graph: a parameter, a ticket, or x.
func (g *Graph) sourceName(id int64) string {
	for _, b := range g.params {
		if b.node.ID() == id {
			return b.name
		}
	}
	for _, n := range g.ex.AllNodes() {
		if layer, _, ok := strings.Cut(n.Name(), ".ticket"); n.ID() == id && ok {
			return layer + ".ticket"
		}
	}
	return "x"
}

// dotStyle colours what talks to workers.
func dotStyle(o *op, future bool) string {
	switch o.kind {
	case encodeForward, encodeBackward:
		return ", fillcolor=lightblue"
	case forwardStart, backwardStart, gradientStart:
		if future {
			return `, fillcolor=orange, style="filled,dashed"`
		}
		return ", fillcolor=orange"
	case forwardWait, backwardWait:
		return ", fillcolor=palegreen"
	}
	return ""
}
