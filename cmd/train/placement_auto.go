package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
)

// askPlanner lets the planner decide for --placement auto, if the workers have told
// how fast they are. Workers that the run starts on this machine are a rehearsal of a
// cluster: they share its cores, so that nothing could be gained, and the layers are
// placed that would be on machines of their own (plan.Choose).
func (r *run) askPlanner(ctx context.Context) error {
	if r.cluster == nil || r.Workers > 0 {
		return nil
	}
	speeds := announcedSpeeds(r.cluster.members.Members(), r.N)
	if speeds == nil {
		return nil
	}
	here, err := measureLocal(ctx, r.Threads)
	if err != nil {
		return err
	}
	machines := plan.LAN(here, speeds...)
	if isLoopback(r.cluster.members.Self().GossipAddr) {
		machines = plan.Loopback(here, speeds...)
	}
	r.planned, err = r.planOn(ctx, machines)
	return err
}

// announcedSpeeds are those of the first n workers, flop/s; nil if one has told none.
func announcedSpeeds(members []dist.Member, n int) []float64 {
	var speeds []float64
	for _, m := range members {
		if m.Role != dist.RoleWorker || m.Draining || len(speeds) == n {
			continue
		}
		if m.Speed <= 0 {
			return nil
		}
		speeds = append(speeds, 1e9*m.Speed)
	}
	if len(speeds) < n {
		return nil
	}
	return speeds
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// planOn asks the planner, with the run's code.
func (r *run) planOn(ctx context.Context, m plan.Machines) (map[string]plan.Choice, error) {
	products, err := describeProducts(r.model, r.train.Shape)
	if err != nil {
		return nil, err
	}
	answer, err := plan.Make(ctx, plan.Question{
		Machines: m, Products: products, Batch: r.Batch, Codes: []string{r.Code}, K: r.K, Chunks: chunksPerRound, Seed: r.Seed,
	})
	if err != nil {
		return nil, fmt.Errorf("--placement auto: %w", err)
	}
	choices := map[string]plan.Choice{}
	for _, l := range answer.Layers {
		choices[l.Layer] = plan.Choice{Layer: l.Layer, Placement: l.Chosen.Placement, Reason: l.Chosen.Why}
	}
	return choices, nil
}
