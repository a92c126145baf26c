package main

import (
	"fmt"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn"
)

// fitShipped finds the numbers of blocks of a layer whose products are coded on both
// sides: those of the rule, and the others such that any k answers suffice. A layer that
// a rule of its own wants shipped and that cannot be is an error; for --placement
// shipped it stays local. Decided is the reason for the placement.
func (r *run) fitShipped(p nn.Placeable, rule placementRule, decided string, info *layerInfo) (plan.Choice, error) {
	spec := coded.Spec{Name: rule.Code, N: r.N, M: rule.M, P: rule.P, Q: rule.Q}
	in, out, groups := p.Shape()
	why := ""
	suits := func(l coded.LayerCut) bool {
		batch, ins, outs := l.Finest(!p.First)
		return in >= ins && out >= outs && r.Batch >= batch
	}
	fitted, err := coded.FitLayer(spec, rule.K, suits)
	if err != nil {
		if _, err := coded.FitLayer(spec, rule.K, func(coded.LayerCut) bool { return true }); err != nil { // whatever the layer
			return plan.Choice{}, fmt.Errorf("layer %s: placement shipped: %w; its codes are %s", p.Name, err, strings.Join(shippedCodes(), ", "))
		}
	}
	switch {
	case groups > 1:
		why = "a convolution of groups cannot be cut for codes of two factors"
	case err != nil:
		why = fmt.Sprintf("%d x %d features and a batch of %d cannot be cut by a code %s for any %d of %d", in, out, r.Batch, rule.Code, rule.K, r.N)
	}
	if why != "" {
		if rule.Layer == p.Name {
			return plan.Choice{}, fmt.Errorf("layer %s: placement shipped: %s: choose another k or code, or placement batch or local", p.Name, why)
		}
		info.Placement, info.Reason = plan.Local, why
		return plan.Choice{Layer: p.Name, Placement: plan.Local, Reason: why}, nil
	}
	code, err := coded.New(fitted)
	if err != nil {
		return plan.Choice{}, err
	}
	cut, _ := code.LayerCut()
	info.spec, info.Code, info.N, info.K = fitted, fitted.Name, fitted.N, code.Threshold()
	info.Reason = fmt.Sprintf("%s, %d x %d by %d x %d blocks, any %d of %d workers", decided, cut.M, cut.P, cut.P, cut.Q, info.K, info.N)
	return plan.Choice{Layer: p.Name, Placement: plan.Shipped, Reason: info.Reason}, nil
}

// shipOne puts a layer on the shipped placement that fitShipped has found for it.
func (r *run) shipOne(p nn.Placeable, info *layerInfo) {
	r.needed = max(r.needed, info.K)
	on := &nn.Shipped{Code: info.spec, Chunks: chunksPerRound}
	p.Layer.Place(on)
	r.placed = append(r.placed, func(e coded.Executor) { on.Executor = e })
}

// shippedBytes is what a step sends and receives for a layer at least: the coded blocks of
// the factors of its products, and the results that are needed.
func shippedBytes(spec coded.Spec, batch int64, l nn.LayerInfo, p nn.Placeable) int64 {
	code, err := coded.New(spec)
	if err != nil {
		return 0
	}
	cut, _ := code.LayerCut()
	in, out, _ := p.Shape()
	block := func(rows, rowBlocks, cols, colBlocks int, all int64) int64 {
		return int64(coded.Blocks(rows, rowBlocks).Size) * int64(coded.Blocks(cols, colBlocks).Size) * all / int64(rows) / int64(cols)
	}
	var floats int64
	for product := coded.Forward; product <= coded.Gradient; product++ {
		if product == coded.Backward && p.First || product == coded.Gradient && p.Weight.Frozen {
			continue
		}
		samples, ins, outs := cut.Blocks(product)
		x := block(int(batch), samples, in, ins, batch*entries(l.Input))
		y := block(int(batch), samples, out, outs, batch*entries(l.Output))
		w := block(out, outs, in, ins, int64(p.Weight.Size()))
		a, b, c := x, w, y
		switch product {
		case coded.Backward:
			a, c = y, x
		case coded.Gradient:
			a, b, c = y, x, w
		}
		task := code.Task(0)
		floats += int64(code.N())*(int64(len(task.A))*a+int64(len(task.B))*b) + int64(code.Threshold()*code.Results(0))*c
	}
	return 4 * floats
}
