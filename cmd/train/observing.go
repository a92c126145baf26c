package main

import (
	"context"

	"github.com/coda-ml/coda/coded"
)

// openMonitor begins to serve --metrics, before anything that takes long.
func (r *run) openMonitor(ctx context.Context) (err error) {
	if r.monitor, err = openMonitor(ctx, r.Observe); err != nil || r.monitor == nil {
		return err
	}
	r.metrics = newRunMetrics(r.monitor.registry)
	return nil
}

// openTimeline makes the file of --trace.
func (r *run) openTimeline() (err error) {
	if r.Trace != "" {
		r.timeline, err = openTimeline(r.Trace, r.TraceSteps, r.began)
	}
	return err
}

// observers are those that the flags ask for.
func (r *run) observers() (all observers) {
	if r.metrics != nil {
		all = append(all, r.metrics)
	}
	if r.timeline != nil {
		all = append(all, r.timeline)
	}
	return all
}

// observeCluster lets the observers hear of the cluster, before it starts.
func (r *run) observeCluster() {
	if all := r.observers(); len(all) > 0 {
		r.cluster.config.OnTask = all.task
	}
	if r.metrics != nil {
		r.cluster.hear = r.metrics.event
		r.cluster.observe = r.metrics.decoded
		r.metrics.members.Store(r.cluster.members)
	}
}

// executor is what the placed layers compute on, once the cluster is up.
func (r *run) executor() coded.Executor {
	c := r.cluster.coordinator
	if r.metrics != nil {
		r.metrics.coordinator.Store(c)
		r.monitor.watchReadiness(c.Ready)
	}
	if all := r.observers(); len(all) > 0 {
		return observeExecutor(c, all)
	}
	return c
}

// tellMonitor says where a free port of --metrics lies.
func (r *run) tellMonitor(t terminal) error {
	return r.monitor.announce(r.human(t))
}
