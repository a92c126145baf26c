package main

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coda-ml/coda/dist"
)

// maxSeries bounds the workers of which metrics are kept. Those that have been
// gone for longest make way.
const maxSeries = 1024

// workerSeries are the metrics of the workers, by name, that must be counted
// as things happen. They outlive connections.
type workerSeries struct {
	seconds *prometheus.HistogramVec
	tasks   *prometheus.CounterVec
	state   *prometheus.GaugeVec

	mu      sync.Mutex
	workers map[string]*oneWorker
	gone    []string // who has left, the longest gone first
}

// oneWorker is a worker's part, so that a task needs no look-up by labels.
type oneWorker struct {
	seconds prometheus.Observer
	tasks   map[dist.Outcome]prometheus.Counter
	state   string
}

// latencyBuckets are seconds, from half a millisecond to a minute.
var latencyBuckets = prometheus.ExponentialBuckets(0.0005, 2, 18)

func newWorkerSeries(r prometheus.Registerer) *workerSeries {
	s := &workerSeries{
		workers: map[string]*oneWorker{},
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coda_worker_task_seconds", Help: "From handing a task out until its result came.", Buckets: latencyBuckets,
		}, []string{"worker"}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coda_worker_tasks_total", Help: "Tasks handed out that are over: used, wasted (too late), cancelled or lost.",
		}, []string{"worker", "outcome"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coda_worker_state", Help: "1 for the state that the worker was last reported in.",
		}, []string{"worker", "state"}),
	}
	r.MustRegister(s.seconds, s.tasks, s.state)
	return s
}

// worker needs mu.
func (s *workerSeries) worker(name string) *oneWorker {
	if w := s.workers[name]; w != nil {
		return w
	}
	for len(s.workers) >= maxSeries && len(s.gone) > 0 {
		s.forget(s.gone[0])
	}
	w := &oneWorker{seconds: s.seconds.WithLabelValues(name), tasks: map[dist.Outcome]prometheus.Counter{}}
	for o := dist.TaskUsed; o <= dist.TaskLost; o++ {
		w.tasks[o] = s.tasks.WithLabelValues(name, o.String())
	}
	s.workers[name] = w
	return w
}

// forget needs mu.
func (s *workerSeries) forget(name string) {
	s.gone = slices.DeleteFunc(s.gone, func(n string) bool { return n == name })
	delete(s.workers, name)
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{s.seconds, s.tasks, s.state} {
		vec.DeletePartialMatch(prometheus.Labels{"worker": name})
	}
}

func (s *workerSeries) task(t dist.TaskStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker(t.Worker)
	w.tasks[t.Outcome].Inc()
	if t.Outcome == dist.TaskUsed || t.Outcome == dist.TaskWasted {
		w.seconds.Observe(t.Took.Seconds())
	}
}

// event notes a worker's state.
func (s *workerSeries) event(e dist.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker(e.Worker)
	if w.state != "" {
		s.state.WithLabelValues(e.Worker, w.state).Set(0)
	}
	w.state = e.State
	s.state.WithLabelValues(e.Worker, e.State).Set(1)
	s.gone = slices.DeleteFunc(s.gone, func(n string) bool { return n == e.Worker })
	if e.State == dist.StateLeft || e.State == dist.StateFailed {
		s.gone = append(s.gone, e.Worker)
	}
}
