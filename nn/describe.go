package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coda-ml/coda/internal/kernel"
)

// LayerInfo describes one operation of a model's forward pass.
type LayerInfo struct {
	Name       string // dotted, or numbered by kind where the module has no name: "maxpool2"
	Kind       string // what it computes: "conv2d"
	Input      []int  // shape of its (first) input for one sample
	Output     []int  // shape for one sample
	Parameters int    // numbers in the parameters of the module; 0 where it is used again
	// Flops of the products (Linear, Conv2d) for one sample; a multiplication
	// and an addition are two. Other operations count for nothing.
	Flops int64
}

// Describe lists what a model computes in training on samples of a shape
// ([1, 28, 28]), in order. Activations that are fused into a layer have no entry
// of their own. Nothing is computed.
func Describe(model Module, inputShape []int) ([]LayerInfo, error) {
	if len(inputShape) == 0 || slices.Min(inputShape) < 1 {
		return nil, fmt.Errorf("nn: describe: input shape %v, want positive dimensions", inputShape)
	}
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	for salt := range uint32(maxSalts) {
		g := newGraph(nil, w.names, 1, true, salt)
		g.run.ws = new(kernel.Workspace)
		p := &program{batch: 1}
		if err = p.build(g, model, inputShape, nil, nil); err == nil {
			return layerInfos(g.ops, w), nil
		}
		if !isCollision(err) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("nn: describe %T: %w", model, err)
}

func layerInfos(ops []*op, w *walker) []LayerInfo {
	modules := make(map[string]Module)
	for _, m := range w.modules {
		modules[m.Name] = m.Module
	}
	counted := make(map[*Param]bool)
	var layers []LayerInfo
	for _, o := range ops {
		if o.producer != nil || o.shape == nil { // a further output, or no tensor
			continue
		}
		info := LayerInfo{Name: o.layer, Kind: o.kind, Input: slices.Clone(o.in[0].Shape()[1:]), Output: slices.Clone(o.shape[1:]), Flops: flops(modules[o.layer], o.shape)}
		for _, p := range w.params {
			if name, ok := strings.CutPrefix(p.Name, o.layer+"."); ok && !strings.Contains(name, ".") && !counted[p.Param] {
				counted[p.Param] = true
				info.Parameters += p.Size()
			}
		}
		layers = append(layers, info)
	}
	return layers
}

// flops counts those of a module's product for an output of a shape.
func flops(m Module, out []int) int64 {
	switch m := m.(type) {
	case *Linear:
		return 2 * int64(size(out)) * int64(m.Weight.Value.Shape[1])
	case *Conv2d:
		return 2 * int64(size(out)) * int64(size(m.Weight.Value.Shape[1:]))
	}
	return 0
}
