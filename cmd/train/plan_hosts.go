package main

import (
	"context"
	"net"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn/shard"
)

// hostOf is the machine of an address.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// slotsByHost are the slots of the workers on each machine, machines in the order of their
// first slot. Workers are known by name.
func slotsByHost(workers []string, members []dist.Member) (hosts []string, slots map[string][]int) {
	slots = map[string][]int{}
	for slot, name := range workers {
		i := slices.IndexFunc(members, func(m dist.Member) bool { return m.Role == dist.RoleWorker && m.Name == name })
		if i < 0 {
			continue // it has just left
		}
		host := hostOf(members[i].Addr)
		if slots[host] == nil {
			hosts = append(hosts, host)
		}
		slots[host] = append(slots[host], slot)
	}
	return hosts, slots
}

// together finds out who shares a machine, and makes the speeds of those what they are
// when all are at work: with one product of which each of them does an equal part.
func (b *probe) together(ctx context.Context, m *plan.Machines) error {
	members := b.cluster.members
	hosts, slots := slotsByHost(b.cluster.coordinator.Workers(), members.Members())
	m.Beside = slots[hostOf(members.Self().GossipAddr)]
	for _, host := range hosts {
		if err := b.crowd(ctx, m, host, slots[host]); err != nil {
			return err
		}
	}
	return nil
}

// crowd does so for one machine.
func (b *probe) crowd(ctx context.Context, m *plan.Machines, host string, slots []int) error {
	k := len(slots)
	if k < 2 {
		return nil
	}
	spec := coded.Spec{Name: "trigonometric", N: b.n, K: k}
	if k == b.n {
		spec.Name = "uncoded"
	}
	l, err := b.place(ctx, "plan-together-"+host, spec, shard.LinearConfig{In: probeSize, Out: k * probeSize}, 1)
	if err != nil {
		return err
	}
	defer b.only.Store(nil)
	b.only.Store(&slots)
	rows, took, err := l.long(ctx)
	if err != nil {
		return err
	}
	slowest := m.Speeds[slots[0]]
	for _, w := range slots {
		slowest = min(slowest, m.Speeds[w])
	}
	alone := m.Task + probeFlops*float64(rows)/slowest
	for _, w := range slots {
		m.Speeds[w] *= min(1, alone/took)
	}
	return nil
}

// messages measures by how much each further message holds a round up: by one that asks
// little else of all workers, against one with a single worker, whose two messages take
// the latency.
func (b *probe) messages(ctx context.Context, latency float64) (float64, error) {
	config := shard.LinearConfig{In: 1, Out: b.n * chunksPerRound}
	l, err := b.place(ctx, "plan-messages", coded.Spec{Name: "uncoded", N: b.n, K: b.n}, config, chunksPerRound)
	if err != nil {
		return 0, err
	}
	beside, _, err := l.medianRounds(ctx, 1)
	if err != nil {
		return 0, err
	}
	further := b.n*(1+chunksPerRound) - 2
	return max(0, beside-2*latency) / float64(further), nil
}
