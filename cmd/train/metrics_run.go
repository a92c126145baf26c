package main

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// runMetrics are the metrics of a training run. A nil one takes no notice.
type runMetrics struct {
	*workerSeries
	step        prometheus.Gauge
	loss        prometheus.Gauge
	stepSeconds prometheus.Histogram
	accuracy    prometheus.Gauge
	phases      *prometheus.HistogramVec
	conditions  *prometheus.HistogramVec
	residuals   *prometheus.HistogramVec
	drift       *prometheus.GaugeVec
	coordinator atomic.Pointer[dist.Coordinator] // nil until the cluster is up
	members     atomic.Pointer[dist.Membership]
}

// conditionBuckets are powers of ten and halves between, up to the limit at
// which decoding refuses.
var conditionBuckets = []float64{1, 2, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5}

// residualBuckets are powers of ten, from less than the rounding of a float32 on.
var residualBuckets = prometheus.ExponentialBuckets(1e-8, 10, 9)

func newRunMetrics(r prometheus.Registerer) *runMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &runMetrics{
		workerSeries: newWorkerSeries(r),
		step:         gauge("coda_step", "The last step that was made."),
		loss:         gauge("coda_loss", "Mean loss of the last step's images."),
		accuracy:     gauge("coda_test_accuracy", "Accuracy of the last evaluation, from 0 to 1."),
		stepSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coda_step_seconds", Help: "Time of a step.", Buckets: latencyBuckets,
		}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coda_round_seconds", Help: "Time of the training loop in the phases of a round: start, wait, decode; update stands beside the rounds.",
			Buckets: latencyBuckets,
		}, []string{"layer", "product", "phase"}),
		conditions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coda_round_condition_number", Help: "The largest condition number that a round was decoded with.", Buckets: conditionBuckets,
		}, []string{"layer"}),
		residuals: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coda_round_residual", Help: "By how much the results of a round disagree, in parts of their size, where some were to spare or --verify tested them.", Buckets: residualBuckets,
		}, []string{"layer"}),
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coda_layer_drift", Help: "How far the coded copies of a layer's weights were apart at the last --drift-every, in parts of the largest weight.",
		}, []string{"layer"}),
	}
	r.MustRegister(m.step, m.loss, m.accuracy, m.stepSeconds, m.phases, m.conditions, m.residuals, m.drift, &clusterCollector{m})
	return m
}

func (m *runMetrics) round(s span) {
	m.phases.WithLabelValues(s.layer, s.product, string(s.phase)).Observe(s.took.Seconds())
}

// decoded notes what a round is decoded from.
func (m *runMetrics) decoded(s dist.RoundStats) {
	m.conditions.WithLabelValues(s.Layer).Observe(s.Condition())
	if s.Compared > 0 {
		m.residuals.WithLabelValues(s.Layer).Observe(s.Residual)
	}
}

func (m *runMetrics) stepMade(s train.StepInfo) {
	if m == nil {
		return
	}
	m.step.Set(float64(s.Step))
	m.loss.Set(s.Loss)
	m.stepSeconds.Observe(s.Time.Seconds())
}

func (m *runMetrics) drifted(d nn.Drift) {
	if m != nil {
		m.drift.WithLabelValues(d.Layer).Set(d.Weights)
	}
}

func (m *runMetrics) evaluated(e train.EpochInfo) {
	if m != nil {
		m.accuracy.Set(e.TestAccuracy)
	}
}

// clusterCollector reads the coordinator's totals when it is asked.
type clusterCollector struct{ m *runMetrics }

// desc describes a metric that is read.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	membersDesc  = desc("coda_members", "Nodes that the gossip believes alive, this one included.", "role")
	workersDesc  = desc("coda_workers", "Connected workers: in a slot of the code, or spare.", "place")
	roundsDesc   = desc("coda_rounds_total", "Rounds that ended well.")
	updatesDesc  = desc("coda_updates_total", "Optimiser steps handed to the workers.")
	repairsDesc  = desc("coda_repairs_total", "Shards repaired from other workers.")
	rebuildsDesc = desc("coda_rebuilds_total", "Layers encoded anew.")
	awaitedDesc  = desc("coda_awaited_chunks_total", "Chunks of rounds that could be decoded and awaited one more result, by --max-condition.")
	aboveDesc    = desc("coda_chunks_above_condition_total", "Chunks that were decoded with a condition number above --max-condition, since nobody gave one more result in time.")
	workDesc     = desc("coda_work_total", "Work spent on products: flops where shards can tell, else chunks.")
	wastedDesc   = desc("coda_wasted_work_total", "Of it, what no decoding used.")
	bytesDesc    = desc("coda_bytes_total", "Bytes of frames.", "direction")

	linkQueueDesc   = desc("coda_worker_queue", "Tasks handed out and not answered.", "worker")
	linkBehindDesc  = desc("coda_worker_behind", "Updates that the worker's slowest shard has still to apply.", "worker")
	linkWorkDesc    = desc("coda_worker_work_total", "Work of the worker's present connection.", "worker")
	linkWastedDesc  = desc("coda_worker_wasted_work_total", "Of it, what no decoding used.", "worker")
	linkComputeDesc = desc("coda_worker_computing_seconds_total", "Computing time of answered tasks, as the worker measured it.", "worker")
	linkBytesDesc   = desc("coda_worker_bytes_total", "Bytes of frames of the worker's present connection: in is from the worker.", "worker", "direction")
)

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		membersDesc, workersDesc, roundsDesc, updatesDesc, repairsDesc, rebuildsDesc, awaitedDesc, aboveDesc, workDesc, wastedDesc, bytesDesc,
		linkQueueDesc, linkBehindDesc, linkWorkDesc, linkWastedDesc, linkComputeDesc, linkBytesDesc,
	} {
		to <- d
	}
}

// metricSink sends values that have just been read.
type metricSink chan<- prometheus.Metric

func (s metricSink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s metricSink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(ch chan<- prometheus.Metric) {
	to := metricSink(ch)
	if members := c.m.members.Load(); members != nil {
		count := map[string]int{dist.RoleWorker: 0, dist.RoleCoordinator: 0}
		for _, m := range members.Members() {
			if _, known := count[m.Role]; known {
				count[m.Role]++
			}
		}
		for role, n := range count {
			to.gauge(membersDesc, float64(n), role)
		}
	}
	coordinator := c.m.coordinator.Load()
	if coordinator == nil {
		return
	}
	collectTotals(to, coordinator.Stats())
	slots, spares := 0, 0
	for _, l := range coordinator.LinkStats() {
		if l.Slot >= 0 {
			slots++
		} else {
			spares++
		}
		collectLink(to, l)
	}
	to.gauge(workersDesc, float64(slots), "slot")
	to.gauge(workersDesc, float64(spares), "spare")
}

func collectTotals(to metricSink, s dist.Stats) {
	to.counter(roundsDesc, float64(s.Rounds))
	to.counter(updatesDesc, float64(s.Updates))
	to.counter(repairsDesc, float64(s.Repairs))
	to.counter(rebuildsDesc, float64(s.Rebuilds))
	to.counter(awaitedDesc, float64(s.Awaited))
	to.counter(aboveDesc, float64(s.Above))
	to.counter(workDesc, s.Work)
	to.counter(wastedDesc, s.Wasted)
	to.counter(bytesDesc, float64(s.BytesIn), "in")
	to.counter(bytesDesc, float64(s.BytesOut), "out")
}

func collectLink(to metricSink, l dist.LinkStats) {
	to.gauge(linkQueueDesc, float64(l.Queue), l.Worker)
	to.gauge(linkBehindDesc, float64(l.Behind), l.Worker)
	to.counter(linkWorkDesc, l.Work, l.Worker)
	to.counter(linkWastedDesc, l.Wasted, l.Worker)
	to.counter(linkComputeDesc, l.Compute.Seconds(), l.Worker)
	to.counter(linkBytesDesc, float64(l.BytesIn), l.Worker, "in")
	to.counter(linkBytesDesc, float64(l.BytesOut), l.Worker, "out")
}
