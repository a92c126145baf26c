package plan

import "slices"

// actions are a step of a placed layer alone.
func (l *placed) actions(m Machines) []action { return slices.Concat(l.ahead(), l.back(), l.end(m)) }

// ahead are the actions of a placed layer on the way to the loss.
func (l *placed) ahead() []action { return []action{{layer: l, do: start}, {layer: l, do: await}} }

// back are those on the way back. All rounds are started, and what is left of dW to the
// coordinator is made, before dX is waited for.
func (l *placed) back() []action {
	var list []action
	resident := l.costs.gather > 0
	switch {
	case l.costs.dX:
		list = append(list, action{layer: l, do: start, round: 1})
	case l.costs.keep > 0:
		list = append(list, action{layer: l, do: keep, gather: resident})
	}
	if l.costs.dW {
		list = append(list, action{layer: l, do: start, round: 2})
	}
	if l.costs.here > 0 {
		list = append(list, action{seconds: l.costs.here / l.here})
	}
	if l.costs.dX {
		list = append(list, action{layer: l, do: await, round: 1, gather: resident})
	}
	return list
}

// end are those after the way back: a dW that workers make is not waited for before, and the
// update of weights that are here sends them anew.
func (l *placed) end(m Machines) []action {
	var list []action
	if l.costs.dW {
		list = append(list, action{layer: l, do: await, round: 2})
	}
	if l.costs.update > 0 {
		list = append(list, action{seconds: l.costs.update / m.Here})
	}
	if l.costs.ship > 0 {
		list = append(list, action{layer: l, do: ship})
	}
	return list
}

// model are the actions of a step of the whole model with the layers chosen so. Rest
// is spread over the layers by the size of what they read and write, a third of it
// on the way to the loss.
func (q Question) model(chosen []Candidate) []action {
	var numbers float64
	for _, p := range q.Products {
		numbers += float64(p.X + p.Y)
	}
	const ahead = 1.0 / 3
	var to, back, ends []action
	for i, p := range q.Products {
		rest := q.Rest * float64(p.X+p.Y) / numbers
		if w := chosen[i].where; w != nil {
			to = append(append(to, w.ahead()...), action{seconds: ahead * rest})
			back = append(slices.Concat([]action{{seconds: (1 - ahead) * rest}}, w.back()), back...)
			ends = append(ends, w.end(q.Machines)...)
			continue
		}
		here := p.local(q.Machines, q.Batch)
		to = append(to, action{seconds: ahead * (here + rest)})
		back = append([]action{{seconds: (1 - ahead) * (here + rest)}}, back...)
	}
	return slices.Concat(to, back, ends)
}
