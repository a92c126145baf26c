package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Service says what Serve simulates: requests, each a job of its own, come by a
// Poisson process and wait for workers that are at work on earlier ones. Job,
// Strategy, Rate and Requests are required.
type Service struct {
	Job      Job
	Strategy Strategy
	Model    Model // nil: None. Request i has the paces of round i, counted from its arrival
	Seed     uint64
	Rate     float64 // requests in a unit of time, in which an undisturbed worker does a shard
	Requests int     // numbered from 1
	Together int     // requests that are worked on at a time, the oldest; 0: all that are there
}

// Served sums a service up. Mean and percentiles are over the requests that were
// answered.
type Served struct {
	Times                []float64 // by request: from its arrival until it could be decoded; +Inf: never
	Failed               int       // requests that were never answered
	Mean, P50, P99, P999 float64
	Busy                 float64 // fraction of the workers' time that they were at work
}

// maxWaiting bounds the requests in a cluster at a time.
const maxWaiting = 1 << 14

// Serve simulates a service. A worker that is free takes its next chunk from the
// oldest request that wants one of it, and one that others are at work on as well
// only if no request wants any other. A chunk that is begun is ended, also when it
// is not wanted any more; one that would never end is given up with its request.
// The network costs nothing. The result is a function of the Service, to the bit,
// and the same requests come to every strategy with the same luck.
//
// It fails if the requests come so much faster than they can be answered that
// thousands are waiting.
func Serve(ctx context.Context, s Service) (*Served, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Model == nil {
		s.Model = None{}
	}
	plan, err := s.Strategy.Plan(s.Job)
	if err != nil {
		return nil, err
	}
	if s.Together == 0 {
		s.Together = maxWaiting
	}
	v := newServer(s, plan)
	if err := v.run(ctx); err != nil {
		return nil, fmt.Errorf("sim: serve %s: %w", s.Strategy.Name(), err)
	}
	return v.served(), nil
}

func (s Service) check() error {
	c := Config{Job: s.Job, Strategy: s.Strategy, Model: s.Model, Rounds: s.Requests}
	problems := []error{c.check()}
	if s.Together < 0 {
		problems = append(problems, fmt.Errorf("sim: %d requests at a time, want 0 or more", s.Together))
	}
	if !(s.Rate > 0) || math.IsInf(s.Rate, 1) {
		problems = append(problems, fmt.Errorf("sim: rate of requests %v, want a positive number", s.Rate))
	}
	return errors.Join(problems...)
}

// RateOf returns the rate of requests at which an uncoded cluster that serves one
// after another is at work for a fraction of the time: that over the mean time of
// an uncoded round. If requests overlap, a worker is at work for less of it.
func RateOf(ctx context.Context, s Service, utilisation float64) (float64, error) {
	if !(utilisation > 0 && utilisation < 1) {
		return 0, fmt.Errorf("sim: utilisation %v, want between 0 and 1", utilisation)
	}
	r, err := Run(ctx, Config{Job: s.Job, Strategy: Uncoded{}, Model: s.Model, Seed: s.Seed, Rounds: s.Requests})
	if err != nil {
		return 0, err
	}
	if r.Failed > 0 {
		return 0, fmt.Errorf("sim: %d of %d uncoded rounds never end, there is no utilisation", r.Failed, s.Requests)
	}
	return utilisation / r.Mean, nil
}

// server is the state of a service.
type server struct {
	Service
	plan    *Plan
	now     float64
	events  events // ends of chunks, under the number of workers the next arrival, then wakings
	workers []servant
	active  []*request // by arrival
	spare   []*request
	next    int // number of the request that arrives next
	times   []float64
	busy    float64
}

// servant is a worker: free if it has no request.
type servant struct {
	at    *request
	chunk int
	wake  float64 // when it is to be given something although nothing happens; 0: never
}

// request is one that was not answered yet, or on a chunk of which a worker is.
type request struct {
	number   int
	arrived  float64
	schedule Schedule
	paces    []Pace
	users    int // workers at a chunk of it
	over     bool
}

func newServer(s Service, plan *Plan) *server {
	v := &server{Service: s, plan: plan, workers: make([]servant, s.Job.Workers), times: make([]float64, s.Requests)}
	for i := range v.times {
		v.times[i] = math.Inf(1)
	}
	v.expect()
	return v
}

// expect draws when the next request arrives.
func (v *server) expect() {
	if v.next++; v.next <= v.Requests {
		gap := -math.Log(uniform(stream(v.Seed, arrivals), v.next, 0)) / v.Rate
		v.events.push(event{v.now + gap, int32(len(v.workers))})
	}
}

// arrivals is the stream of the times between two requests.
const arrivals = 0x617272

func (v *server) run(ctx context.Context) error {
	for n := 1; len(v.events) > 0; n++ {
		if n%heed == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		e := v.events[0]
		v.events.pop()
		v.now = e.at
		w := int(e.worker)
		switch {
		case w > len(v.workers):
			w -= len(v.workers) + 1
			if s := &v.workers[w]; s.wake == v.now {
				s.wake = 0
				v.assign(w)
			}
			continue
		case w < len(v.workers) && !v.finish(w):
			v.assign(w)
			continue
		}
		if w == len(v.workers) {
			if err := v.arrive(); err != nil {
				return err
			}
		}
		for w := range v.workers {
			v.assign(w)
		}
	}
	return nil
}

// arrive takes the next request in.
func (v *server) arrive() error {
	if len(v.active) == maxWaiting {
		return fmt.Errorf("%d requests wait after %d: they come faster than they can be answered", maxWaiting, v.next)
	}
	var r *request
	if n := len(v.spare); n > 0 {
		r, v.spare = v.spare[n-1], v.spare[:n-1]
	} else {
		r = &request{schedule: v.plan.Schedule(), paces: make([]Pace, len(v.workers))}
	}
	r.number, r.arrived, r.over = v.next, v.now, false
	r.schedule.Reset()
	draw(r.paces, v.Model, v.Seed, r.number)
	v.active = append(v.active, r)
	v.expect()
	return nil
}

// finish handles the end of a worker's chunk. It tells whether others may have
// something to do now that had not.
func (v *server) finish(w int) (news bool) {
	s := &v.workers[w]
	if r := s.at; !r.over {
		_, news = r.schedule.Finish(w, s.chunk, v.now)
		if r.schedule.Done() {
			v.answer(r)
		}
	}
	v.free(w)
	return news
}

// answer takes a request out that can be decoded.
func (v *server) answer(r *request) {
	r.over = true
	v.times[r.number-1] = v.now - r.arrived
	v.active = slices.DeleteFunc(v.active, func(o *request) bool { return o == r })
	for w := range v.workers {
		if s := &v.workers[w]; s.at == r && math.IsInf(v.ends(w), 1) {
			v.free(w)
		}
	}
}

// free takes a worker off its request.
func (v *server) free(w int) {
	r := v.workers[w].at
	v.workers[w].at = nil
	if r.users--; r.users == 0 && r.over {
		v.spare = append(v.spare, r)
	}
}

// ends returns when a worker that begins a chunk now would have done it.
func (v *server) ends(w int) float64 {
	r := v.workers[w].at
	return r.arrived + r.paces[w].Finish(v.now-r.arrived, v.plan.Load[w])
}

// assign gives a worker that is free something to do.
func (v *server) assign(w int) {
	s := &v.workers[w]
	if s.at != nil || v.plan.Load[w] == 0 {
		return
	}
	given, _ := v.give(w, false)
	if !given {
		var after float64
		if given, after = v.give(w, true); !given {
			if at := v.now + after; after > 0 && (s.wake == 0 || at < s.wake) {
				s.wake = at
				v.events.push(event{at, int32(len(v.workers) + 1 + w)})
			}
			return
		}
	}
	if at := v.ends(w); !math.IsInf(at, 1) {
		v.busy += at - v.now
		v.events.push(event{at, int32(w)})
	}
}

// give gives a worker a chunk of the oldest request that has one for it. If none
// has, one may in the time after, if that is not 0.
func (v *server) give(w int, idle bool) (given bool, after float64) {
	for _, r := range v.active[:min(len(v.active), v.Together)] {
		chunk, wait, ok := r.schedule.Next(w, idle, v.now)
		if ok {
			r.schedule.Start(w, chunk, v.now)
			r.users++
			v.workers[w].at, v.workers[w].chunk = r, chunk
			return true, 0
		}
		if wait > 0 && (after == 0 || wait < after) {
			after = wait
		}
	}
	return false, after
}

// served sums up.
func (v *server) served() *Served {
	s := &Served{Times: v.times}
	var answered []float64
	var sum float64
	for _, t := range v.times {
		if math.IsInf(t, 1) {
			s.Failed++
			continue
		}
		sum += t
		answered = append(answered, t)
	}
	if v.now > 0 {
		s.Busy = v.busy / (v.now * float64(len(v.workers)))
	}
	if len(answered) == 0 {
		s.Mean, s.P50, s.P99, s.P999 = math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
		return s
	}
	slices.Sort(answered)
	s.Mean = sum / float64(len(answered))
	s.P50, s.P99, s.P999 = Percentile(answered, 0.5), Percentile(answered, 0.99), Percentile(answered, 0.999)
	return s
}

// Percentile returns the least of the values, which ascend, that a fraction q of
// them does not exceed.
func Percentile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
