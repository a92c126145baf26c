package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coda-ml/coda/dist/plan"
)

// planReport is one JSON object.
type planReport struct {
	Event   string `json:"event"` // plan
	Model   string `json:"model"`
	Dataset string `json:"dataset"`
	Batch   int    `json:"batch"`
	machinesReport
	Straggler string `json:"straggler"`
	Measured  bool   `json:"measured"`
	*plan.Answer
	Check *planCheck `json:"check,omitempty"`

	explain bool
}

// machinesReport is what the planner took the machines for.
type machinesReport struct {
	Local     float64   `json:"local_gflops"`
	Speeds    []float64 `json:"speeds_gflops"`
	Bandwidth float64   `json:"bandwidth_gbit_s"`
	LatencyMS float64   `json:"latency_ms"`
	MessageUS float64   `json:"message_us"` // of the coordinator for each message
	Beside    int       `json:"beside"`     // workers that share the coordinator's machine
	Memory    float64   `json:"memory_gb_s"`
}

func newMachinesReport(m plan.Machines) machinesReport {
	r := machinesReport{Local: m.Local / 1e9, Speeds: []float64{}, Bandwidth: 8e-9 * m.Bandwidth, LatencyMS: 1000 * m.Latency, MessageUS: 1e6 * m.Message, Beside: len(m.Beside), Memory: m.Memory / 1e9}
	for _, s := range m.Speeds {
		r.Speeds = append(r.Speeds, s/1e9)
	}
	return r
}

func (r machinesReport) String() string {
	beside := ""
	if r.Beside > 0 {
		beside = fmt.Sprintf(" (%d beside the coordinator, whose cores they share)", r.Beside)
	}
	return fmt.Sprintf("coordinator %.4g GFLOP/s, %s%s, %.4g Gbit/s, %.3g ms a message and %.3g us for each further one", r.Local, r.workers(), beside, r.Bandwidth, r.LatencyMS, r.MessageUS)
}

func newPlanReport(p *planCmd, r *run, q plan.Question, a *plan.Answer) *planReport {
	report := &planReport{
		Event: "plan", Model: r.Model, Dataset: r.Dataset, Batch: r.Batch, machinesReport: newMachinesReport(q.Machines),
		Straggler: p.Straggler, Measured: p.Measure, Answer: a, explain: p.Explain,
	}
	for i := range a.Layers {
		l := &a.Layers[i]
		l.Chosen.Worst, l.Chosen.Median = finite(l.Chosen.Worst), finite(l.Chosen.Median)
		for j := range l.Candidates {
			l.Candidates[j].Worst, l.Candidates[j].Median = finite(l.Candidates[j].Worst), finite(l.Candidates[j].Median)
		}
	}
	return report
}

// shownCandidates is how many candidates of a layer people are shown, besides the best of
// each placement.
const shownCandidates = 4

func (r *planReport) text() string {
	how := "told"
	if r.Measured {
		how = "measured"
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s on %s, %d images a step\n", r.Model, r.Dataset, r.Batch)
	b.WriteString(paragraph("  ", "%s; stragglers: %s (%s)", r.machinesReport, r.Straggler, how) + "\n")
	b.WriteString(r.table())
	b.WriteString("\n" + paragraph("  ", "A step of the whole model so: %.4g ms, at most %.4g ms in 99 of 100, %s on the wire. All at the coordinator: %.4g ms.",
		r.StepMS, r.P99MS, bytesText(int64(r.Bytes)), r.LocalMS))
	b.WriteString(paragraph("  ", "Of it: %s.", partsText(r.Parts)))
	if r.explain {
		b.WriteString(r.explained())
	}
	b.WriteString(r.breakEven())
	if c := r.Check; c != nil {
		b.WriteString(paragraph("  ", "Measured over %d steps: %.4g ms (at most %.4g ms in 99 of 100); the prediction is off by %+.1f %%.", c.Steps, c.StepMS, c.P99MS, 100*c.Error))
	}
	return b.String()
}

// table lists the candidates of every layer, and what was chosen why.
func (r *planReport) table() string {
	code, tails := len("code"), false
	for _, l := range r.Layers {
		code = max(code, widest("", l.Candidates, func(c plan.Candidate) string { return c.Code }))
		tails = tails || slices.ContainsFunc(l.Candidates, func(c plan.Candidate) bool { return c.P99MS != c.StepMS })
	}
	b := &strings.Builder{}
	line := func(placement, codeName, nk, step, tail, bytes, storage, condition string) {
		if tails {
			step = fmt.Sprintf("%8s %8s", step, tail)
		}
		text := fmt.Sprintf("  %-8s %-*s %5s %8s %8s %8s %9s", placement, code, codeName, nk, step, bytes, storage, condition)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("", "code", "n,k", "ms", "99 %", "bytes", "a worker", "condition")
	for _, l := range r.Layers {
		b.WriteString(l.Layer + "\n")
		for _, c := range shownOf(l) {
			line(c.Placement, c.Code, nk(c), number(c.StepMS), number(c.P99MS), bytesOf(c.Bytes), bytesOf(c.Storage), number(c.Worst))
			if isChosen(l, c) {
				b.WriteString(paragraph("              ", "           <- %s", l.Chosen.Why))
			}
		}
	}
	return b.String()
}

// shownOf are the candidates of a layer that people are shown: the first, the best of each
// placement, and what was chosen.
func shownOf(l plan.LayerPlan) []plan.Candidate {
	var list []plan.Candidate
	shown := map[string]bool{}
	for i, c := range l.Candidates {
		if i < shownCandidates || isChosen(l, c) || !shown[c.Placement] {
			shown[c.Placement] = true
			list = append(list, c)
		}
	}
	return list
}

// isChosen tells whether a candidate is what was chosen.
func isChosen(l plan.LayerPlan, c plan.Candidate) bool {
	return c.Placement == l.Chosen.Placement && c.Code == l.Chosen.Code && c.K == l.Chosen.K && c.Gradient == l.Chosen.Gradient
}

// workers says how fast they are.
func (r machinesReport) workers() string {
	if len(r.Speeds) == 0 {
		return "no workers"
	}
	sorted := append([]float64(nil), r.Speeds...)
	low, high := sorted[0], sorted[0]
	for _, s := range sorted {
		low, high = min(low, s), max(high, s)
	}
	if high <= 1.005*low {
		return fmt.Sprintf("%d workers of %.3g GFLOP/s", len(sorted), low)
	}
	return fmt.Sprintf("%d workers of %.3g to %.3g GFLOP/s", len(sorted), low, high)
}

// partsText names what a step waits for, without what is nothing.
func partsText(p plan.Parts) string {
	var list []string
	for _, part := range []struct {
		ms   float64
		what string
	}{
		{p.Local, "the coordinator's own work"}, {p.Coding, "coding"}, {p.Products, "products of the workers"}, {p.Updates, "their updates"},
		{p.Messages, "messages"}, {p.Stragglers, "stragglers"},
	} {
		if part.ms > 0 {
			list = append(list, fmt.Sprintf("%.3g ms %s", part.ms, part.what))
		}
	}
	if list == nil {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// explained says of every placed layer what its step, alone, waits for.
func (r *planReport) explained() string {
	b := &strings.Builder{}
	const form = "%-*s %8s %8s %8s %8s %8s %8s %10s\n"
	width := widest("layer", r.Layers, func(l plan.LayerPlan) string { return l.Layer })
	for _, l := range r.Layers {
		p := l.Chosen.Parts
		if p == nil {
			continue
		}
		if b.Len() == 0 {
			fmt.Fprintf(b, "\nWhat a step of each placed layer by itself waits for, ms:\n"+form, width, "layer", "step", "here", "coding", "products", "updates", "messages", "stragglers")
		}
		cell := func(ms float64) string { return fmt.Sprintf("%.3g", ms) }
		fmt.Fprintf(b, form, width, l.Layer, cell(p.Sum()), cell(p.Local), cell(p.Coding), cell(p.Products), cell(p.Updates), cell(p.Messages), cell(p.Stragglers))
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// breakEven says from where on the best placement of the costliest layer pays.
func (r *planReport) breakEven() string {
	var layer string
	var best plan.Candidate
	most := 0.0
	for _, l := range r.Layers {
		if c, ok := bestPlaced(l); ok && localOf(l) > most {
			most, layer, best = localOf(l), l.Layer, c
		}
	}
	if layer == "" {
		return ""
	}
	return paragraph("  ", "Placing %s (%s, %s, any %d of %d) pays %s.", layer, best.Placement, best.Code, best.K, best.N, pays(best)) + beats(best)
}

// bestPlaced is what was chosen of a layer, or if that is local the fastest of the rest.
func bestPlaced(l plan.LayerPlan) (plan.Candidate, bool) {
	if l.Chosen.Placement != plan.Local {
		return l.Chosen, true
	}
	i := slices.IndexFunc(l.Candidates, func(c plan.Candidate) bool { return c.Placement != plan.Local })
	if i < 0 {
		return plan.Candidate{}, false
	}
	return l.Candidates[i], true
}

// pays says from where on a candidate is faster than the coordinator.
func pays(c plan.Candidate) string {
	speed, wire := fmt.Sprintf("from workers of %.3g of the coordinator's speed on", c.BreakEvenSpeed), fmt.Sprintf("from %.3g Gbit/s on", 8e-9*c.BreakEvenBandwidth)
	switch {
	case c.BreakEvenSpeed > 0 && c.BreakEvenBandwidth > 0:
		return speed + ", or " + wire + ", the rest as it is"
	case c.BreakEvenSpeed > 0:
		return speed + ", and with these ones at no bandwidth"
	case c.BreakEvenBandwidth > 0:
		return wire + ", and on this network at no speed of the workers"
	}
	return "at no speed of the workers and at no bandwidth, the rest as it is"
}

// beats says from where on it is faster than uncoded.
func beats(c plan.Candidate) string {
	switch s := c.BreakEvenStraggler; {
	case s == 1:
		return "It beats uncoded with the workers as they are.\n"
	case s > 1:
		return paragraph("  ", "It beats uncoded as soon as one worker is %.3g times slower than the plan takes it to be.", s)
	}
	return ""
}

func localOf(l plan.LayerPlan) float64 {
	for _, c := range l.Candidates {
		if c.Placement == plan.Local {
			return c.StepMS
		}
	}
	return 0
}

func nk(c plan.Candidate) string {
	if c.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d,%d", c.N, c.K)
}

func number(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g", v)
}

func bytesOf(v float64) string {
	if v == 0 {
		return ""
	}
	return bytesText(int64(v))
}
