package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
)

// autoPlacement leaves the decision to the planner.
const autoPlacement = "auto"

// plannedLayer is what the planner says of a layer: a rule that would give it the same
// placement, and the reason.
type plannedLayer struct {
	rule placementRule
	why  string
}

// prediction is what the planner expects of the steps of a run, and of which machines.
type prediction struct {
	StepMS  float64 `json:"step_ms"`
	LocalMS float64 `json:"local_step_ms"` // with every layer at the coordinator
	Bytes   float64 `json:"bytes_per_step"`
	machinesReport
}

func (p *prediction) String() string {
	return fmt.Sprintf("%.4g ms a step, %.4g with all layers here: %s", p.StepMS, p.LocalMS, p.machinesReport)
}

// askPlanner lets the planner decide for --placement auto, if the workers have told
// how fast they are. Workers that the run starts on this machine are a rehearsal of a
// cluster: they share its cores, so that nothing could be gained, and the layers are
// placed that would be on machines of their own (plan.Choose).
func (r *run) askPlanner(ctx context.Context) error {
	if r.cluster == nil || r.Workers > 0 || !r.hasAuto() {
		return nil
	}
	workers := announced(r.cluster.members.Members(), r.N)
	if workers == nil {
		return nil
	}
	here, err := measureLocal(ctx, r.Threads)
	if err != nil {
		return err
	}
	return r.planOn(ctx, machinesOf(here, r.cluster.members.Self().GossipAddr, workers))
}

// machinesOf are those of a coordinator of so many flop/s at an address, and of workers that
// have told their speeds.
func machinesOf(local float64, self string, workers []dist.Member) plan.Machines {
	speeds := make([]float64, len(workers))
	var beside []int
	for w, m := range workers {
		speeds[w] = 1e9 * m.Speed
		if hostOf(m.Addr) == hostOf(self) {
			beside = append(beside, w)
		}
	}
	machines := plan.LAN(local, speeds...)
	if isLoopback(self) {
		machines = plan.Loopback(local, speeds...)
	}
	machines.Beside = beside
	return machines
}

// hasAuto tells whether a rule or the flags leave anything to the planner.
func (r *run) hasAuto() bool {
	return r.Placement == autoPlacement || slices.ContainsFunc(r.Placements, func(p placementRule) bool { return p.Placement == autoPlacement })
}

// announced are the first n workers; nil if one has not told its speed.
func announced(members []dist.Member, n int) []dist.Member {
	var workers []dist.Member
	for _, m := range members {
		if m.Role != dist.RoleWorker || m.Draining || len(workers) == n {
			continue
		}
		if m.Speed <= 0 {
			return nil
		}
		workers = append(workers, m)
	}
	if len(workers) < n {
		return nil
	}
	return workers
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// planOn asks the planner, as train plan does, about every layer that is left to it; the
// others are as their rules say, since their rounds are part of the step.
func (r *run) planOn(ctx context.Context, m plan.Machines) error {
	products, err := describeProducts(r.model, r.train.Shape)
	if err != nil {
		return err
	}
	left := map[string]error{} // layers that the planner decides on, and why not for resident
	for i := range products {
		p := &products[i]
		rule := r.ruleFor(p.Name)
		p.Limits = &plan.Limits{Placements: []string{}, Codes: []string{rule.Code}, K: min(rule.K, r.N)} // place refuses a larger k
		switch rule.Placement {
		case plan.Local:
		case autoPlacement:
			left[p.Name] = r.cannotReside(p.Name)
			r.freely(p.Limits, left[p.Name] == nil, rule.Code != r.Code)
		default:
			p.Limits.Placements, p.Limits.Must = []string{rule.Placement}, true
		}
	}
	answer, err := plan.Make(ctx, plan.Question{Machines: m, Products: products, Batch: r.Batch, Chunks: chunksPerRound, Seed: r.Seed})
	if err != nil {
		return fmt.Errorf("--placement auto: %w", err)
	}
	r.planned = map[string]plannedLayer{}
	for _, l := range answer.Layers {
		unfit, ok := left[l.Layer]
		if !ok {
			continue
		}
		p := plannedLayer{ruleOf(l), l.Chosen.Why}
		if unfit != nil {
			p.why += "; not resident: " + unfit.Error()
		}
		r.planned[l.Layer] = p
	}
	r.prediction = &prediction{StepMS: answer.StepMS, LocalMS: answer.LocalMS, Bytes: answer.Bytes, machinesReport: newMachinesReport(m)}
	return nil
}

// freely lets the planner choose a placement, with a code that bears the loss of as many
// workers as was asked for. The flags' code, if it is of one factor, is none for shipped
// layers, which have some of their own; a rule's code is the only one.
func (r *run) freely(l *plan.Limits, resident, only bool) {
	l.Spare = r.N - l.K
	l.Placements = slices.DeleteFunc(plan.Placements(), func(p string) bool { return p == plan.Resident && !resident })
	if !only && !slices.Contains(shippedCodes(), l.Codes[0]) {
		l.Codes = append(l.Codes, plan.TwoSided()...)
	}
}

// ruleOf is the rule that places a layer as planned.
func ruleOf(l plan.LayerPlan) placementRule {
	c := l.Chosen
	rule := placementRule{Layer: l.Layer, Placement: c.Placement, Code: c.Code, K: c.K, M: c.M, P: c.P, Q: c.Q}
	if c.Gradient > 0 {
		rule.Gradient = gradientWorkers
	}
	return rule
}
