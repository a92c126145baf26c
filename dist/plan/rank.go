package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// Question is what Make answers. Machines, Products and Batch are required.
type Question struct {
	Machines Machines
	Products []Product // the layers with weights, in the order of the model
	Batch    int       // samples a step
	// Rest is what a step takes at the coordinator beside the products and updates
	// of Products, in seconds.
	Rest float64

	Limits // of every layer that has none of its own
	// Chunks into which a worker's share of a product is cut; 0: 4.
	Chunks int
	Steps  int    // simulated for each figure, under stragglers; 0: 100
	Seed   uint64 // of all draws
}

// Candidate is a placement of one layer and what is predicted of it. Times are
// those of a step of this layer alone, products and update one after another.
type Candidate struct {
	Placement string  `json:"placement"`
	Code      string  `json:"code,omitempty"`
	N         int     `json:"n,omitempty"`
	K         int     `json:"k,omitempty"`
	M         int     `json:"m,omitempty"` // of Shipped: blocks of the factors, m x p and p x q
	P         int     `json:"p,omitempty"`
	Q         int     `json:"q,omitempty"`
	Gradient  int     `json:"gradient_needed,omitempty"` // of Batch: answers that dW needs; 0: it is made at the coordinator
	Chunks    int     `json:"chunks,omitempty"`
	StepMS    float64 `json:"step_ms"`
	P99MS     float64 `json:"p99_ms"`

	Bytes      float64 `json:"bytes_per_step"`   // of operands, and of the results that are needed
	Minimum    float64 `json:"minimum_bytes"`    // without padding and coding
	Storage    float64 `json:"bytes_per_worker"` // kept on a worker
	Redundancy float64 `json:"redundancy"`       // n/k
	Losses     int     `json:"losses"`           // workers that may be lost
	Worst      float64 `json:"worst_condition"`  // over the sets of k answers, see coded.Conditions
	Median     float64 `json:"median_condition"`
	// Placing pays from these on, the rest being as it is; 0: never.
	BreakEvenSpeed     float64 `json:"break_even_speed"`     // of a worker, over that of the coordinator
	BreakEvenBandwidth float64 `json:"break_even_bandwidth"` // bytes/s
	// The code beats the uncoded placement if the first worker is so many times slower than
	// it is said to be, or more; 1: it does anyway; 0: never, or there is none uncoded.
	BreakEvenStraggler float64 `json:"break_even_straggler"`
	Why                string  `json:"why"`
	Parts              *Parts  `json:"parts,omitempty"` // of StepMS, of what was chosen; nil: local, or not chosen

	spec  coded.Spec
	where *placed // nil: local
}

// Layered is a layer with its candidates: the chosen one, and all in the order of
// their predicted times.
type LayerPlan struct {
	Layer      string      `json:"layer"`
	Chosen     Candidate   `json:"chosen"`
	Candidates []Candidate `json:"candidates"`
}

// Answer is a plan for a model.
type Answer struct {
	Layers  []LayerPlan `json:"layers"`
	StepMS  float64     `json:"step_ms"`
	P99MS   float64     `json:"p99_ms"`
	Parts   Parts       `json:"parts"`         // of StepMS
	LocalMS float64     `json:"local_step_ms"` // with every layer at the coordinator
	Bytes   float64     `json:"bytes_per_step"`
}

func (q Question) withDefaults() Question {
	q.Machines = q.Machines.withDefaults()
	q.Limits = q.Limits.withDefaults()
	q.Chunks, q.Steps = cmp.Or(q.Chunks, 4), cmp.Or(q.Steps, 100)
	return q
}

func (q Question) validate() error {
	problems := []error{q.Machines.Validate()}
	if q.Batch < 1 || q.Rest < 0 || q.Chunks < 0 || q.Steps < 0 {
		problems = append(problems, fmt.Errorf("plan: batch %d, rest %v s, chunks %d, steps %d: want a batch, and nothing negative", q.Batch, q.Rest, q.Chunks, q.Steps))
	}
	for i, p := range q.Products {
		if p.In < 1 || p.Out < 1 || p.X < 1 || p.Y < 1 || p.Weights < 1 || !(p.Flops > 0) {
			problems = append(problems, fmt.Errorf("plan: layer %d, %s: %+v, want positive numbers", i, p.Name, p))
		}
		problems = append(problems, q.limits(p).validate(p.Name, len(q.Machines.Speeds)))
	}
	return errors.Join(problems...)
}

// Make answers a question. Layers are placed where that makes a step of the whole
// model faster: each gets its best candidate by itself, and then goes back to the
// coordinator if the model is faster so, as when its update delays the product of
// another one.
func Make(ctx context.Context, q Question) (*Answer, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	q = q.withDefaults()
	a := &Answer{}
	for _, p := range q.Products {
		l, err := q.layer(ctx, p)
		if err != nil {
			return nil, err
		}
		a.Layers = append(a.Layers, l)
	}
	if err := q.settle(ctx, a); err != nil {
		return nil, err
	}
	return a, q.whole(ctx, a)
}

// layer ranks the candidates of a layer and chooses the first that may be.
func (q Question) layer(ctx context.Context, p Product) (LayerPlan, error) {
	limits := q.limits(p)
	here := 1000 * p.local(q.Machines, q.Batch)
	l := LayerPlan{Layer: p.Name, Candidates: []Candidate{{Placement: Local, StepMS: here, P99MS: here}}}
	why := "there are no workers"
	if len(q.Machines.Speeds) > 0 {
		why = "no code that is considered can cut it"
	}
	for _, c := range q.candidates(p, limits) {
		if why = p.CannotBe(c.Placement, q.Batch, c.N, c.K); why != "" {
			continue
		}
		if err := q.predict(ctx, p, &c); err != nil {
			return l, err
		}
		l.Candidates = append(l.Candidates, c)
	}
	if err := q.againstUncoded(ctx, p, l.Candidates); err != nil {
		return l, err
	}
	slices.SortStableFunc(l.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.StepMS, b.StepMS), cmp.Compare(a.Worst, b.Worst))
	})
	if len(l.Candidates) == 1 {
		l.Candidates[0].Why = why
	}
	explain(q.Machines.shared(), limits.Spare, here, l.Candidates)
	l.Chosen = l.Candidates[slices.IndexFunc(l.Candidates, limits.may)]
	if limits.Must {
		if i := slices.IndexFunc(l.Candidates, func(c Candidate) bool { return c.Placement != Local && limits.may(c) }); i >= 0 {
			l.Chosen = l.Candidates[i]
			l.Chosen.Why = "as asked"
		}
	}
	return l, nil
}

// conditionSets is how many sets of answers are tried for a condition number.
const conditionSets = 256

// describe fills in what a candidate is and costs.
func (q Question) describe(p Product, c *Candidate) error {
	code, err := coded.New(c.spec)
	if err != nil {
		return fmt.Errorf("plan: layer %s: %w", p.Name, err)
	}
	conditions, err := code.Conditions(conditionSets, rand.New(rand.NewPCG(q.Seed, 7)))
	if err != nil {
		return fmt.Errorf("plan: layer %s: %w", p.Name, err)
	}
	c.Worst, c.Median, c.Losses = conditions.Worst, conditions.Median, code.N()-code.Threshold()
	c.where = &placed{name: p.Name, code: code, work: 1 / code.Loads().Compute, here: p.speed(q.Machines, q.Batch), chunks: min(q.Chunks, coded.Blocks(p.Out, c.K).Size)}
	switch c.Placement {
	case Resident:
		c.where.costs = residentCosts(p, q.Batch, c.N, c.K)
		if !p.First {
			c.where.chunks = min(c.where.chunks, coded.Blocks(p.In, c.K).Size)
		}
	case Batch:
		c.where.costs = batchCosts(p, q.Batch, c.N, c.K, c.Gradient)
		if c.Gradient > 0 {
			c.Losses = c.N - c.Gradient
		}
		c.where.chunks = min(q.Chunks, coded.Blocks(q.Batch, c.K).Size)
		if p.byRows(q.Batch, c.K, q.Chunks) {
			c.where.costs.rounds[0].pieces, c.where.costs.rounds[1].pieces = q.Chunks, q.Chunks
		}
	case Shipped:
		c.K = code.Threshold()
		c.where.costs = shippedCosts(p, q.Batch, c.N, code.Loads())
		c.where.chunks = q.Chunks
		if cut, ok := code.LayerCut(); ok {
			c.where.chunks = min(q.Chunks, coded.Blocks(p.Out, max(cut.M, cut.Q)).Size, coded.Blocks(p.In, cut.Q).Size)
		}
	}
	c.Chunks = c.where.chunks
	c.Bytes, c.Minimum = c.where.costs.bytes(c.N, c.K), minimum(c.Placement, p, q.Batch, c.N, c.K, q.Chunks)
	c.Storage, c.Redundancy = c.where.costs.storage, float64(c.N)/float64(c.K)
	return nil
}

// predict fills a candidate in.
func (q Question) predict(ctx context.Context, p Product, c *Candidate) error {
	if err := q.describe(p, c); err != nil {
		return err
	}
	t, err := predict(ctx, q.Machines, c.where.actions(q.Machines), q.Steps, q.Seed)
	if err != nil {
		return err
	}
	c.StepMS, c.P99MS = 1000*t.mean, 1000*t.p99
	return q.breakEven(ctx, p, c)
}

// settle takes layers back to the coordinator with which the model is faster so.
func (q Question) settle(ctx context.Context, a *Answer) error {
	best, err := q.time(ctx, a.chosen())
	if err != nil {
		return err
	}
	for i := range a.Layers {
		if a.Layers[i].Chosen.Placement == Local || q.limits(q.Products[i]).Must {
			continue
		}
		with := a.chosen()
		with[i] = a.Layers[i].local()
		t, err := q.time(ctx, with)
		if err != nil {
			return err
		}
		if t.mean <= best.mean {
			best = t
			with[i].Why = "placed, it would delay the other layers by more than it gains"
			a.Layers[i].Chosen = with[i]
		}
	}
	return nil
}

func (a *Answer) chosen() []Candidate {
	list := make([]Candidate, len(a.Layers))
	for i, l := range a.Layers {
		list[i] = l.Chosen
	}
	return list
}

func (l LayerPlan) local() Candidate {
	return l.Candidates[slices.IndexFunc(l.Candidates, func(c Candidate) bool { return c.Placement == Local })]
}

func (q Question) time(ctx context.Context, chosen []Candidate) (timing, error) {
	return predict(ctx, q.Machines, q.model(chosen), q.Steps, q.Seed)
}

// whole predicts the model.
func (q Question) whole(ctx context.Context, a *Answer) error {
	t, err := q.time(ctx, a.chosen())
	if err != nil {
		return err
	}
	a.StepMS, a.P99MS, a.LocalMS = 1000*t.mean, 1000*t.p99, 1000*q.Rest
	if a.Parts, err = q.parts(ctx, q.model(a.chosen()), t.mean); err != nil {
		return err
	}
	for i := range a.Layers {
		c := &a.Layers[i].Chosen
		a.Bytes += c.Bytes
		a.LocalMS += 1000 * q.Products[i].local(q.Machines, q.Batch)
		if c.where == nil {
			continue
		}
		p, err := q.parts(ctx, c.where.actions(q.Machines), c.StepMS/1000)
		if err != nil {
			return err
		}
		c.Parts = &p
	}
	return nil
}
