package main

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coda-ml/coda/dist"
)

// nodeCollector reads a worker's totals when it is asked.
type nodeCollector struct{ worker *dist.Worker }

var (
	nodeTasksDesc     = desc("coda_node_tasks_total", "Tasks: done, or cancelled before or while they were computed.", "outcome")
	nodeComputingDesc = desc("coda_node_computing_seconds_total", "Time spent on tasks.")
	nodeUpdatingDesc  = desc("coda_node_updating_seconds_total", "Time spent on gradients and updates of shards.")
	nodeQueueDesc     = desc("coda_node_queue_tasks", "Tasks that wait.")
	nodeQueuedDesc    = desc("coda_node_queue_bytes", "Bytes of operands that wait.")
	nodeShardsDesc    = desc("coda_node_shards", "Shards: held for the run that is served, or kept for a coordinator that has gone.", "state")
	nodeServingDesc   = desc("coda_node_serving", "1 while a coordinator is connected.")
	nodeBytesDesc     = desc("coda_node_bytes_total", "Bytes of frames, from and to coordinators.", "direction")
)

// Describe implements prometheus.Collector.
func (c nodeCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nodeTasksDesc, nodeComputingDesc, nodeUpdatingDesc, nodeQueueDesc, nodeQueuedDesc, nodeShardsDesc, nodeServingDesc, nodeBytesDesc,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	to, s := metricSink(ch), c.worker.Stats()
	to.counter(nodeTasksDesc, float64(s.Tasks), "done")
	to.counter(nodeTasksDesc, float64(s.Cancelled), "cancelled")
	to.counter(nodeComputingDesc, s.Computing.Seconds())
	to.counter(nodeUpdatingDesc, s.Updating.Seconds())
	to.gauge(nodeQueueDesc, float64(s.QueueTasks))
	to.gauge(nodeQueuedDesc, float64(s.QueueBytes))
	to.gauge(nodeShardsDesc, float64(s.Shards), "held")
	to.gauge(nodeShardsDesc, float64(s.Kept), "kept")
	serving := 0.0
	if s.Run != "" {
		serving = 1
	}
	to.gauge(nodeServingDesc, serving)
	to.counter(nodeBytesDesc, float64(s.BytesIn), "in")
	to.counter(nodeBytesDesc, float64(s.BytesOut), "out")
}

// watchNode serves the metrics and the readiness of a worker.
func (m *monitor) watchNode(w *dist.Worker, members *dist.Membership, seeds []string) {
	if m == nil {
		return
	}
	m.registry.MustRegister(nodeCollector{w})
	m.watchReadiness(func() error { return nodeReady(w, members, seeds) })
}

// nodeReady tells whether a worker serves, and has found somebody if it was
// told where to look.
func nodeReady(w *dist.Worker, m *dist.Membership, seeds []string) error {
	if !w.Stats().Serving {
		return errors.New("not serving yet")
	}
	if m.Self().Draining {
		return errors.New("leaving")
	}
	if len(seeds) > 0 && len(m.Members()) < 2 {
		return fmt.Errorf("has joined nobody; looking for %q", seeds)
	}
	return nil
}
