package main

import (
	"context"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

// phase is something that the training loop does in a round, or beside it.
type phase string

const (
	phaseStart  phase = "start"  // copying the operand and handing it over
	phaseWait   phase = "wait"   // until every chunk can be decoded
	phaseDecode phase = "decode" // from the end of the wait until the answers are given back
	phaseUpdate phase = "update" // handing an optimiser step over
)

// span is a phase with its time. Layer and product are empty for an update.
type span struct {
	phase   phase
	layer   string
	product string
	step    int
	began   time.Time
	took    time.Duration
}

// observer hears what a run's cluster does. round is called by the training
// goroutine, task under the coordinator's lock.
type observer interface {
	round(s span)
	task(s dist.TaskStats)
}

// observers tells several.
type observers []observer

func (o observers) round(s span) {
	for _, one := range o {
		one.round(s)
	}
}

func (o observers) task(s dist.TaskStats) {
	for _, one := range o {
		one.task(s)
	}
}

// observedExecutor is a coordinator whose rounds are timed for an observer.
// Like any executor's, its methods belong to one goroutine.
type observedExecutor struct {
	*dist.Coordinator
	to observer
}

func observeExecutor(c *dist.Coordinator, to observer) *observedExecutor {
	return &observedExecutor{Coordinator: c, to: to}
}

// Start implements coded.Executor.
func (o *observedExecutor) Start(ctx context.Context, r coded.Round) (coded.Pending, error) {
	began := time.Now()
	p, err := o.Coordinator.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	s := span{phase: phaseStart, layer: r.Layer, product: r.Product.String(), step: r.Step, began: began, took: time.Since(began)}
	o.to.round(s)
	return &observedPending{Pending: p, o: o, span: s}, nil
}

// Update implements coded.Executor.
func (o *observedExecutor) Update(ctx context.Context, u coded.Update) error {
	began := time.Now()
	if err := o.Coordinator.Update(ctx, u); err != nil {
		return err
	}
	o.to.round(span{phase: phaseUpdate, step: u.Step, began: began, took: time.Since(began)})
	return nil
}

// observedPending is a round under way. What lies between the end of its wait
// and its release is the decoding.
type observedPending struct {
	coded.Pending
	o      *observedExecutor
	span   span
	waited time.Time // when the wait ended well; zero before, and after the release
}

// Wait implements coded.Pending.
func (p *observedPending) Wait(ctx context.Context) ([][]coded.Answer, error) {
	began := time.Now()
	chunks, err := p.Pending.Wait(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p.tell(phaseWait, began, now)
	p.waited = now
	return chunks, nil
}

// Release implements coded.Pending.
func (p *observedPending) Release() {
	if !p.waited.IsZero() {
		p.tell(phaseDecode, p.waited, time.Now())
		p.waited = time.Time{}
	}
	p.Pending.Release()
}

func (p *observedPending) tell(what phase, began, ended time.Time) {
	s := p.span
	s.phase, s.began, s.took = what, began, ended.Sub(began)
	p.o.to.round(s)
}
