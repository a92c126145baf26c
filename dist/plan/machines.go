package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/dist/sim"
)

// Machines describes a cluster by what its machines and wires can do. Local and
// Speeds are required; LAN fills in the rest.
type Machines struct {
	Local  float64   // flop/s of the coordinator on the products of layers
	Speeds []float64 // flop/s of each worker

	Bandwidth float64 // bytes/s that the coordinator sends, or receives, over all its links together
	Latency   float64 // seconds of a message, either way, with what both ends do for it
	Message   float64 // seconds by which each further message holds up those of the coordinator, in either direction
	Task      float64 // seconds that a worker takes for a chunk, or an update, beside its flops
	Combine   float64 // bytes/s, read once and written once, of the coordinator's encoding and decoding
	Memory    float64 // bytes/s of an optimiser's step on a worker, which is bound by memory
	Here      float64 // the same on the coordinator

	// Beside lists the workers, from 0, that run on the coordinator's machine. They take
	// their parts of its Local flop/s, as far as these go.
	Beside []int

	Straggler sim.Model // of products; nil: sim.None
	Queue     int       // tasks that a worker is given ahead; 0: 2

	fixed bool // workers' updates cost nothing
}

// LAN returns machines on a local network: 1 Gbit/s, 0.2 ms, 20 us of the coordinator for a
// message (one end of it), memory of 5 GB/s.
func LAN(local float64, speeds ...float64) Machines {
	return Machines{
		Local: local, Speeds: speeds, Bandwidth: 125e6, Latency: 200e-6, Message: 20e-6, Combine: 10e9, Memory: 5e9, Here: 10e9, Straggler: sim.None{},
	}
}

// Loopback returns processes of one machine, which talk through its memory and share its
// cores. Both ends of a message are theirs to pay for: 37 to 49 us were measured.
func Loopback(local float64, speeds ...float64) Machines {
	m := LAN(local, speeds...)
	m.Bandwidth, m.Latency, m.Message = 1.5e9, 100e-6, 40e-6
	for w := range speeds {
		m.Beside = append(m.Beside, w)
	}
	return m
}

// Validate lists what is wrong with the description.
func (m Machines) Validate() error {
	var problems []error
	positive := func(name string, v float64) {
		if !(v > 0) {
			problems = append(problems, fmt.Errorf("plan: %s is %v, want more than 0", name, v))
		}
	}
	positive("the coordinator's speed", m.Local)
	for i, v := range m.Speeds {
		positive(fmt.Sprintf("the speed of worker %d", i+1), v)
		if math.IsInf(v, 1) {
			problems = append(problems, fmt.Errorf("plan: the speed of worker %d is infinite", i+1))
		}
	}
	positive("bandwidth", m.Bandwidth)
	positive("the speed of combinations", m.Combine)
	positive("the workers' memory", m.Memory)
	positive("the coordinator's memory", m.Here)
	if !(m.Latency >= 0) || !(m.Message >= 0) || !(m.Task >= 0) || m.Queue < 0 {
		problems = append(problems, fmt.Errorf("plan: latency %v s, message %v s, task %v s, queue %d, want no negative numbers", m.Latency, m.Message, m.Task, m.Queue))
	}
	for i, w := range m.Beside {
		if w < 0 || w >= len(m.Speeds) || slices.Contains(m.Beside[:i], w) {
			problems = append(problems, fmt.Errorf("plan: worker %d beside the coordinator, want different ones from 0 to below %d", w, len(m.Speeds)))
		}
	}
	if len(m.Speeds) > sim.MaxWorkers {
		problems = append(problems, fmt.Errorf("plan: %d workers, want at most %d", len(m.Speeds), sim.MaxWorkers))
	}
	return errors.Join(problems...)
}

func (m Machines) withDefaults() Machines {
	if m.Straggler == nil {
		m.Straggler = sim.None{}
	}
	if m.Queue == 0 {
		m.Queue = 2
	}
	return m
}

// shared returns the same machines with the workers beside the coordinator as fast as it
// lets them be when all are at work.
func (m Machines) shared() Machines {
	var wanted float64
	for _, w := range m.Beside {
		wanted += m.Speeds[w]
	}
	if wanted > m.Local {
		m.Speeds = slices.Clone(m.Speeds)
		for _, w := range m.Beside {
			m.Speeds[w] *= m.Local / wanted
		}
	}
	return m
}

// faster returns the same machines with workers so many times as fast.
func (m Machines) faster(times float64) Machines {
	m.Speeds = slices.Clone(m.Speeds)
	for i := range m.Speeds {
		m.Speeds[i] *= times
	}
	return m
}

// calm returns the same machines without stragglers.
func (m Machines) calm() Machines {
	m.Straggler = sim.None{}
	return m
}

// meanSpeed is that of the workers.
func (m Machines) meanSpeed() float64 {
	var sum float64
	for _, s := range m.Speeds {
		sum += s
	}
	return sum / float64(len(m.Speeds))
}
