package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

func openTestMonitor(t *testing.T, profiles bool) *monitor {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	m, err := openMonitor(t.Context(), observeFlags{Metrics: "127.0.0.1:0", Pprof: profiles})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// fetch asks the monitor on a connection of its own.
func fetch(t *testing.T, m *monitor, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := client.Get("http://" + m.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestMonitorAnswers(t *testing.T) {
	m := openTestMonitor(t, false)
	check := func(path string, status int, want string) {
		t.Helper()
		if got, text := fetch(t, m, path); got != status || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, %q; want %d and %q", path, got, text, status, want)
		}
	}
	check("/healthz", 200, "ok")
	check("/readyz", 503, "starting")
	m.watchReadiness(func() error { return errors.New("two\nlines") })
	check("/readyz", 503, "two; lines\n")
	m.watchReadiness(func() error { return nil })
	check("/readyz", 200, "ok")
	check("/metrics", 200, `coda_build_info{version="`)
	check("/metrics", 200, "go_goroutines")
	check("/debug/pprof/", 404, "")
}

func TestMonitorProfiles(t *testing.T) {
	m := openTestMonitor(t, true)
	if status, text := fetch(t, m, "/debug/pprof/goroutine?debug=1"); status != 200 || !strings.Contains(text, "goroutine profile") {
		t.Errorf("status %d, %q", status, text)
	}
}

func TestMonitorRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	if _, err := openMonitor(t.Context(), observeFlags{Metrics: taken}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "--metrics "+taken) {
		t.Errorf("address in use: error %v", err)
	}
	for _, test := range []struct {
		flags observeFlags
		want  string
	}{
		{observeFlags{Metrics: "here"}, "--metrics here: address here: missing port in address; want HOST:PORT"},
		{observeFlags{Pprof: true}, "--pprof without --metrics"},
		{observeFlags{}, ""},
		{observeFlags{Metrics: ":9090", Pprof: true}, ""},
	} {
		err := test.flags.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want %q", test.flags, err, test.want)
		}
	}
	var none *monitor
	none.watchReadiness(nil)
	if err := errors.Join(none.announce(nil), none.close()); err != nil {
		t.Errorf("no monitor: %v", err)
	}
}

// What a run's registry holds after a step over two workers.
func TestRunMetrics(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m := newRunMetrics(r)
	c := memoryRounds(t, m, func(c *dist.CoordinatorConfig) { c.OnRound = m.decoded })
	m.coordinator.Store(c.coordinator)
	m.members.Store(c.members[0])
	m.event(dist.Event{Worker: "worker-1", State: dist.StateJoined})
	m.event(dist.Event{Worker: "worker-1", State: dist.StateRepaired})
	m.stepMade(train.StepInfo{Step: 1, Loss: 0.5, Time: time.Second})
	m.drifted(nn.Drift{Layer: "fc1", Weights: 2e-6})
	m.decoded(dist.RoundStats{Layer: "fc", Residual: 1e-6, Compared: 3})
	m.evaluated(train.EpochInfo{TestAccuracy: 0.75})
	want := `
# HELP coda_layer_drift How far the coded copies of a layer's weights were apart at the last --drift-every, in parts of the largest weight.
# TYPE coda_layer_drift gauge
coda_layer_drift{layer="fc1"} 2e-06
# HELP coda_loss Mean loss of the last step's images.
# TYPE coda_loss gauge
coda_loss 0.5
# HELP coda_members Nodes that the gossip believes alive, this one included.
# TYPE coda_members gauge
coda_members{role="coordinator"} 1
coda_members{role="worker"} 2
# HELP coda_rounds_total Rounds that ended well.
# TYPE coda_rounds_total counter
coda_rounds_total 2
# HELP coda_step The last step that was made.
# TYPE coda_step gauge
coda_step 1
# HELP coda_test_accuracy Accuracy of the last evaluation, from 0 to 1.
# TYPE coda_test_accuracy gauge
coda_test_accuracy 0.75
# HELP coda_updates_total Optimiser steps handed to the workers.
# TYPE coda_updates_total counter
coda_updates_total 1
# HELP coda_worker_state 1 for the state that the worker was last reported in.
# TYPE coda_worker_state gauge
coda_worker_state{state="joined",worker="worker-1"} 0
coda_worker_state{state="repaired",worker="worker-1"} 1
# HELP coda_worker_tasks_total Tasks handed out that are over: used, wasted (too late), cancelled or lost.
# TYPE coda_worker_tasks_total counter
coda_worker_tasks_total{outcome="cancelled",worker="worker-1"} 0
coda_worker_tasks_total{outcome="cancelled",worker="worker-2"} 0
coda_worker_tasks_total{outcome="lost",worker="worker-1"} 0
coda_worker_tasks_total{outcome="lost",worker="worker-2"} 0
coda_worker_tasks_total{outcome="used",worker="worker-1"} 4
coda_worker_tasks_total{outcome="used",worker="worker-2"} 4
coda_worker_tasks_total{outcome="wasted",worker="worker-1"} 0
coda_worker_tasks_total{outcome="wasted",worker="worker-2"} 0
# HELP coda_workers Connected workers: in a slot of the code, or spare.
# TYPE coda_workers gauge
coda_workers{place="slot"} 2
coda_workers{place="spare"} 0
`
	err := testutil.GatherAndCompare(r, strings.NewReader(want), "coda_layer_drift", "coda_loss", "coda_members", "coda_rounds_total", "coda_step",
		"coda_test_accuracy", "coda_updates_total", "coda_worker_state", "coda_worker_tasks_total", "coda_workers")
	if err != nil {
		t.Error(err)
	}
	for name, series := range map[string]int{
		"coda_round_seconds": 7, "coda_round_condition_number": 1, "coda_round_residual": 1, "coda_worker_task_seconds": 2, "coda_step_seconds": 1,
		"coda_worker_bytes_total": 4, "coda_worker_queue": 2, "coda_worker_behind": 2, "coda_work_total": 1, "coda_awaited_chunks_total": 1, "coda_chunks_above_condition_total": 1, "coda_wasted_work_total": 1, "coda_bytes_total": 2,
	} {
		if got, err := testutil.GatherAndCount(r, name); got != series || err != nil {
			t.Errorf("%s: %d series, %v; want %d", name, got, err, series)
		}
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestNodeMetrics(t *testing.T) {
	w, err := dist.NewWorker(dist.WorkerConfig{Name: "w", Handlers: scaleHandlers, Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(nodeCollector{w})
	for name, series := range map[string]int{
		"coda_node_tasks_total": 2, "coda_node_computing_seconds_total": 1, "coda_node_updating_seconds_total": 1, "coda_node_queue_tasks": 1,
		"coda_node_queue_bytes": 1, "coda_node_shards": 2, "coda_node_serving": 1, "coda_node_bytes_total": 2,
	} {
		if got, err := testutil.GatherAndCount(r, name); got != series || err != nil {
			t.Errorf("%s: %d series, %v; want %d", name, got, err, series)
		}
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if err := nodeReady(w, nil, nil); err == nil || !strings.Contains(err.Error(), "not serving yet") {
		t.Errorf("before it serves: error %v", err)
	}
}

// However many workers come and go, a bounded number of series is kept: those of the workers that are there.
func TestSeriesAreBounded(t *testing.T) {
	r := prometheus.NewRegistry()
	s := newWorkerSeries(r)
	s.event(dist.Event{Worker: "stays", State: dist.StateJoined})
	for i := range 2 * maxSeries {
		name := fmt.Sprintf("w%d", i)
		s.event(dist.Event{Worker: name, State: dist.StateJoined})
		s.task(dist.TaskStats{Worker: name, Took: time.Second})
		s.event(dist.Event{Worker: name, State: dist.StateFailed})
	}
	got, err := testutil.GatherAndCount(r, "coda_worker_task_seconds")
	if err != nil || got > maxSeries || len(s.workers) > maxSeries || len(s.gone) > maxSeries {
		t.Errorf("%d series of %d workers, %d of them gone; want at most %d: %v", got, len(s.workers), len(s.gone), maxSeries, err)
	}
	if s.workers["stays"] == nil || s.workers[fmt.Sprintf("w%d", 2*maxSeries-1)] == nil || s.workers["w0"] != nil {
		t.Error("kept the wrong workers")
	}
	s.event(dist.Event{Worker: "stays", State: dist.StateJoined})
	if allocs := testing.AllocsPerRun(100, func() { s.task(dist.TaskStats{Worker: "stays"}) }); allocs > 0 {
		t.Errorf("a task makes %v allocations", allocs)
	}
}
