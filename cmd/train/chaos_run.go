package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn/shard"
)

// What is waited for. None of it is about speed: a machine on which every core
// is busy with other things keeps them.
const (
	chaosRoundLimit = 2 * time.Minute  // for a round to end, one way or another
	chaosRecovery   = 3 * time.Minute  // for workers that have no fault to be back
	chaosStuck      = 30 * time.Second // after the limit of a round
	chaosQuarantine = 4 * time.Second  // of a liar, at most
	chaosWarmUp     = 24               // actions before the first measurement, or half of the products
)

// chaosRun is a chaos run under way.
type chaosRun struct {
	*chaosCmd
	dir     string
	report  *chaosReport
	rng     *rand.Rand // of weights and operands
	plan    *chaosPlan
	layers  []*truth
	cluster *cluster

	began    time.Time
	step     int
	pause    time.Duration // between rounds
	next     action        // what happens next
	some     bool          // there is a next
	due      int           // the round before which it does not happen
	overdue  time.Time     // since when it waits for workers to come back; zero: it does not
	actions  int
	warm     bool
	progress atomic.Pointer[roundMark]
}

// roundMark says which round has been under way since when.
type roundMark struct {
	what  string
	since time.Time
}

// watched runs the run and watches it: a round that does not end, although its
// deadline and its context have, ends it with the stacks of all goroutines.
func (r *chaosRun) watched(ctx context.Context) error {
	r.progress.Store(&roundMark{"the start", time.Now()})
	done := make(chan error, 1)
	go func() {
		err := r.run(ctx)
		done <- errors.Join(err, r.cluster.close())
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
		}
		if m := r.progress.Load(); time.Since(m.since) > chaosRoundLimit+chaosRecovery+chaosStuck {
			return errors.Join(fmt.Errorf("%s: stuck for %v", m.what, time.Since(m.since).Round(time.Second)), r.writeStacks())
		}
	}
}

func (r *chaosRun) writeStacks() error {
	f, err := os.Create(filepath.Join(r.dir, "stacks.txt"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("goroutine").WriteTo(f, 2), f.Close())
}

func (r *chaosRun) run(ctx context.Context) error {
	r.rng = rand.New(rand.NewPCG(r.Seed, 0x7472757468))
	r.plan = newChaosPlan(r.Seed, r.Faults, r.Workers+r.Spares, r.Workers-r.K, r.elder())
	if err := r.report.start(); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	r.began = time.Now()
	r.draw()
	for !r.ended() {
		if err := r.trainStep(ctx); err != nil {
			return err
		}
		if !r.warm && (r.actions >= chaosWarmUp || r.Rounds > 0 && r.report.rounds >= r.Rounds/2) {
			r.warm = true
			if err := r.firstFootprint(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.lastFootprint(ctx); err != nil {
		return err
	}
	return r.report.done(time.Since(r.began))
}

// ended tells whether the run is over: not before it has had its first
// measurement.
func (r *chaosRun) ended() bool {
	return r.warm && (r.Rounds > 0 && r.report.rounds >= r.Rounds || r.Duration > 0 && time.Since(r.began) >= r.Duration)
}

// start starts the cluster and places the layers.
func (r *chaosRun) start(ctx context.Context) (err error) {
	workers := r.Workers + r.Spares
	r.cluster, err = joinCluster(ctx, clusterOptions{
		bind: "127.0.0.1:0", patience: chaosRecovery, workers: workers, seed: r.Seed, obedient: true, emit: r.report.emit,
	})
	if err != nil {
		return err
	}
	r.cluster.config = dist.CoordinatorConfig{
		Slots: r.Workers, FirstDeadline: chaosRoundLimit / 2, MinDeadline: chaosRoundLimit / 4, MaxDeadline: chaosRoundLimit / 2,
	}
	if r.Verify {
		r.cluster.config.Verify = &dist.Verification{Followers: shard.Followers(), Pause: time.Second, MaxPause: chaosQuarantine}
	}
	r.cluster.observe = func(s dist.RoundStats) { r.report.slowest = max(r.report.slowest, s.Took) }
	if err := r.cluster.start(ctx, r.dir, workers); err != nil {
		return err
	}
	if r.layers, err = r.chaosCmd.layers(r); err != nil {
		return err
	}
	for _, l := range r.layers {
		if err := l.place(ctx, r.cluster.coordinator); err != nil {
			return err
		}
	}
	return nil
}

// trainStep makes the products of a training step, all layers' forward ones at
// a time and then all backward ones, and updates. Now and then it looks at the
// weights as well, or makes a product that belongs to no training.
func (r *chaosRun) trainStep(ctx context.Context) error {
	r.step++
	if r.step%16 == 0 {
		if err := r.products(ctx, coded.Forward, false); err != nil {
			return err
		}
	}
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		if err := r.products(ctx, p, true); err != nil {
			return err
		}
	}
	u := chaosUpdate
	u.Step = r.step
	if err := r.cluster.coordinator.Update(ctx, u); err != nil {
		return err
	}
	for _, l := range r.layers {
		l.update(u)
		if r.step%32 != 0 {
			continue
		}
		d, err := l.fetch(ctx, r.cluster.coordinator)
		if err == nil {
			err = r.report.compare(fmt.Sprintf("layer %s: step %d: weights", l.layer.Name, r.step), d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// products makes one product of every layer, while things happen.
func (r *chaosRun) products(ctx context.Context, p coded.Product, keep bool) error {
	limit := fmt.Errorf("not ended within %v", chaosRoundLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, chaosRoundLimit, limit)
	defer cancel()
	pending := make([]coded.Pending, len(r.layers))
	operands := make([]coded.Tensor, len(r.layers))
	var err error
	for i, l := range r.layers {
		operands[i] = l.draw(p, r.rng, keep)
		pending[i], err = r.cluster.coordinator.Start(ctx, coded.Round{Layer: l.layer.Name, Product: p, Step: r.step, Operand: operands[i], Keep: keep})
		if err != nil {
			return err
		}
		defer pending[i].Release()
	}
	if err := r.act(); err != nil {
		return err
	}
	for i, l := range r.layers {
		what := fmt.Sprintf("round %d: layer %s: step %d: %s product", r.report.rounds+1, l.layer.Name, r.step, p)
		r.progress.Store(&roundMark{what, time.Now()})
		answers, err := pending[i].Wait(ctx)
		if err != nil {
			return fmt.Errorf("round %d: %w", r.report.rounds+1, err)
		}
		d, err := l.check(p, operands[i], answers)
		if err == nil {
			err = errors.Join(r.report.compare(what, d), r.report.product())
		}
		if err != nil {
			return err
		}
	}
	return r.sleep(ctx)
}

func (r *chaosRun) sleep(ctx context.Context) error {
	timer := time.NewTimer(r.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// draw asks the plan what happens next.
func (r *chaosRun) draw() {
	r.next, r.some = r.plan.next()
	r.due, r.pause = r.report.rounds+r.next.after, r.next.pause
	r.overdue = time.Time{}
}

// act lets the next action happen, if it is due and can be borne.
func (r *chaosRun) act() error {
	if !r.some || r.report.rounds < r.due && !r.plan.healing {
		return nil
	}
	if obstacle := r.obstacle(); obstacle != "" {
		if r.overdue.IsZero() {
			r.overdue = time.Now()
		}
		waited := time.Since(r.overdue)
		r.report.wait(waited, obstacle)
		if waited > chaosRecovery {
			return fmt.Errorf("round %d: %s of %s waits: %s for %v", r.report.rounds, r.next.what, workerName(r.next.worker), obstacle, waited.Round(time.Second))
		}
		return nil
	}
	if err := r.do(r.next); err != nil {
		return fmt.Errorf("round %d: %s: %w", r.report.rounds, r.next.what, err)
	}
	r.actions++
	if err := r.report.action(r.next); err != nil {
		return err
	}
	r.draw()
	return nil
}

// obstacle says why the next action must wait, empty if it need not.
func (r *chaosRun) obstacle() string {
	if r.next.what == "join" && r.cluster.workers.proc(r.next.worker) != nil {
		return "its former process has not ended"
	}
	if !r.next.harms() {
		return ""
	}
	// Its own fault is in the plan already.
	serving := r.cluster.coordinator.Serving()
	var fit, missing []string
	for w := 1; w <= r.Workers+r.Spares; w++ {
		switch name := workerName(w); {
		case w == r.next.worker || r.plan.ill(w):
		case slices.Contains(serving, name):
			fit = append(fit, name)
		default:
			missing = append(missing, name)
		}
	}
	if len(fit) >= r.K {
		return ""
	}
	return fmt.Sprintf("%d of %d other workers needed serve, %s have not come back", len(fit), r.K, strings.Join(missing, ", "))
}

// do does something to a worker.
func (r *chaosRun) do(a action) error {
	workers := r.cluster.workers
	if a.order != "" {
		return workers.order(a.worker, a.order)
	}
	switch a.what {
	case "kill":
		return workers.kill(a.worker)
	case "restart":
		if err := workers.kill(a.worker); err != nil {
			return err
		}
		return workers.start(a.worker)
	case "leave":
		return workers.dismiss(a.worker)
	case "join":
		return workers.start(a.worker)
	case "freeze":
		return workers.signal(a.worker, stopSignal)
	case "thaw":
		return workers.signal(a.worker, continueSignal)
	}
	return fmt.Errorf("unknown action %q", a.what)
}
