package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
)

// workerFaults are the faults that a worker has from its beginning.
type workerFaults struct {
	Slow    string  `placeholder:"HOW" help:"Take longer for every product: x=4, shifted-exp=1,0.5, pareto=1,2; trace=FILE,worker=N: as that worker in the round of the step."`
	Drop    float64 `placeholder:"P" help:"Lose an answer with this probability."`
	Corrupt float64 `placeholder:"P" help:"Give an answer with a wrong number in it with this probability."`
	Seed    uint64  `default:"1" placeholder:"N" help:"Seed of --slow, --drop and --corrupt (default ${default})."`
}

// misbehaviour is how a worker fails, for tests. It can be changed at any time.
// Whether an answer is lost or wrong depends on the seed, the round and the chunk
// alone, and so not on the order in which a worker computes.
type misbehaviour struct {
	seed uint64
	cut  dist.Cut

	mu            sync.Mutex
	slow          sim.Distribution // nil: as fast as it can
	trace         *sim.Trace       // by step, of the worker of that number, from 0; nil: none
	worker        int
	rng           *rand.Rand // of slow
	drop, corrupt float64
}

// What distinguishes the streams of random numbers of one seed.
const (
	drawSlow = iota + 0x736c6f77
	drawDrop
	drawCorrupt
)

func newMisbehaviour(f workerFaults) (*misbehaviour, error) {
	m := &misbehaviour{seed: f.Seed, rng: rand.New(rand.NewPCG(f.Seed, drawSlow))}
	var problems []error
	set := func(name, value string) {
		if err := m.set(name, value); err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", name, err))
		}
	}
	if f.Slow != "" {
		set("slow", f.Slow)
	}
	set("drop", strconv.FormatFloat(f.Drop, 'g', -1, 64))
	set("corrupt", strconv.FormatFloat(f.Corrupt, 'g', -1, 64))
	return m, errors.Join(problems...)
}

// set changes one thing: "cut" takes how long the network is to be cut off from
// now, "slow" how much longer products take, "drop" and "corrupt" the part of
// the answers.
func (m *misbehaviour) set(name, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	switch name {
	case "cut":
		var d time.Duration
		if d, err = time.ParseDuration(value); err == nil {
			m.cut.Begin(d)
		}
	case "slow":
		if trace, ok := strings.CutPrefix(value, "trace="); ok {
			return m.follow(trace)
		}
		var slow sim.Distribution
		if slow, err = sim.ParseDistribution(value); err == nil {
			m.slow = slow
		}
	case "drop", "corrupt":
		p := &m.drop
		if name == "corrupt" {
			p = &m.corrupt
		}
		var v float64
		if v, err = strconv.ParseFloat(value, 64); err != nil || !(v >= 0 && v <= 1) {
			return fmt.Errorf("%q is not a probability from 0 to 1", value)
		}
		*p = v
	default:
		return fmt.Errorf("%q is not one of cut, slow, drop, corrupt", name)
	}
	return err
}

// follow reads how slow to be in which step: FILE,worker=N.
func (m *misbehaviour) follow(value string) error {
	path, number, _ := strings.Cut(value, ",worker=")
	w, err := strconv.Atoi(number)
	if err != nil || w < 1 {
		return fmt.Errorf("trace=%s: want trace=FILE,worker=N", value)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	trace, err := sim.ReadTrace(f, path, 0)
	if err != nil {
		return err
	}
	if w > trace.Workers() {
		return fmt.Errorf("trace %s has %d workers, there is no worker %d", path, trace.Workers(), w)
	}
	m.trace, m.worker = trace, w-1
	return nil
}

// slowness is the factor by which a product takes longer.
func (m *misbehaviour) slowness(i dist.ProductInfo) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.trace != nil && i.Step > 0:
		return sim.Paces(m.trace, m.worker+1, 0, i.Step)[m.worker].Slowness
	case m.slow == nil:
		return 1
	}
	return sim.Draw(m.slow, m.rng)
}

// tamper loses an answer or puts a wrong number into it.
func (m *misbehaviour) tamper(i dist.ProductInfo, chunk int, y coded.Tensor) (send bool) {
	m.mu.Lock()
	drop, corrupt := m.drop, m.corrupt
	m.mu.Unlock()
	if drop > 0 && m.draw(drawDrop, i, chunk).Float64() < drop {
		return false
	}
	if corrupt == 0 || len(y.Data) == 0 {
		return true
	}
	if rng := m.draw(drawCorrupt, i, chunk); rng.Float64() < corrupt {
		lie(rng, y.Data)
	}
	return true
}

// draw returns the random numbers of an answer.
func (m *misbehaviour) draw(stream uint64, i dist.ProductInfo, chunk int) *rand.Rand {
	const chunks = 1 << 20 // more than there are
	return rand.New(rand.NewPCG(m.seed<<32^stream, i.Round*chunks+uint64(chunk)))
}

// lie changes one value by something like the largest.
func lie(rng *rand.Rand, y []float32) {
	size := 1.0
	for _, v := range y {
		size = max(size, math.Abs(float64(v)))
	}
	if rng.IntN(2) == 0 {
		size = -size
	}
	y[rng.IntN(len(y))] += float32(size)
}

// untilClosed returns a context that ends when the reader does. What it reads
// are orders for m, lines of a name and a value; nil takes none. Its goroutine
// ends with the reader or with the process.
func untilClosed(ctx context.Context, r *bufio.Reader, m *misbehaviour, log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel() // whatever ends the input, it has ended
		for {
			line, err := r.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
			name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
			if m == nil {
				continue
			}
			if err := m.set(name, value); err != nil {
				log.Error("order refused", "order", strings.TrimSpace(string(line)), "err", err)
			}
		}
	}()
	return ctx, cancel
}
