package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// observeFlags are what train run and train worker have in common for whoever watches them.
type observeFlags struct {
	Metrics string `placeholder:"ADDR" yaml:"metrics" json:"-" help:"Serve Prometheus metrics at http://ADDR/metrics, and /healthz and /readyz: plain HTTP, readable by whoever reaches ADDR." group:"Observing"`
	Pprof   bool   `yaml:"pprof" json:"-" help:"Serve Go's profiles at /debug/pprof of the same address." group:"Observing"`
}

// check finds what is wrong with the flags.
func (f *observeFlags) check() error {
	if f.Metrics == "" {
		if f.Pprof {
			return errors.New("--pprof without --metrics ADDR: there would be no address to serve it at")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Metrics); err != nil {
		return fmt.Errorf("--metrics %s: %w; want HOST:PORT", f.Metrics, err)
	}
	return nil
}

// monitor serves metrics, health and profiles until it is closed. A nil
// monitor does nothing.
type monitor struct {
	registry *prometheus.Registry
	server   *http.Server
	addr     string
	serving  sync.WaitGroup
	failure  error // of Serve; read after serving has ended

	mu    sync.Mutex
	ready func() error
}

// Bounds of the server. A profile of the processor takes 30 seconds unless
// asked otherwise.
const (
	monitorHeaders  = 16 << 10
	monitorRequests = 8 // for metrics, at a time
	monitorWait     = 10 * time.Second
	monitorProfile  = 2 * time.Minute
	monitorClose    = time.Second
)

// errStarting is why a process that has just begun is not ready.
var errStarting = errors.New("starting")

// openMonitor listens at once, so that a wrong address ends the process at its
// start, and serves. It is nil without --metrics.
func openMonitor(ctx context.Context, f observeFlags) (*monitor, error) {
	if f.Metrics == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.Metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", f.Metrics, err)
	}
	m := &monitor{registry: prometheus.NewRegistry(), addr: l.Addr().String(), ready: func() error { return errStarting }}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), versionMetric())
	m.server = &http.Server{
		Handler:           m.handler(f.Pprof),
		ReadHeaderTimeout: monitorWait,
		ReadTimeout:       monitorWait,
		WriteTimeout:      monitorWait,
		IdleTimeout:       monitorProfile,
		MaxHeaderBytes:    monitorHeaders,
		ErrorLog:          log.New(io.Discard, "", 0), // of strangers' requests
	}
	if f.Pprof {
		m.server.WriteTimeout = monitorProfile
	}
	m.serving.Go(func() {
		if err := m.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.failure = fmt.Errorf("--metrics %s: %w", f.Metrics, err)
		}
	})
	return m, nil
}

// versionMetric is 1, and has the program's version.
func versionMetric() prometheus.Collector {
	v := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "coda_build_info", Help: "1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	v.Set(1)
	return v
}

func (m *monitor) handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: monitorRequests, Timeout: monitorWait,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		ready := m.ready
		m.mu.Unlock()
		reply(w, ready())
	})
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// reply says ok, or what is missing with status 503.
func reply(w http.ResponseWriter, problem error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "ok"
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = oneLine(problem)
	}
	// Who asked may have gone; nobody else wants to know.
	_, _ = fmt.Fprintln(w, text)
}

// announce says where the metrics are: --metrics may have asked for any free port.
func (m *monitor) announce(to io.Writer) error {
	if m == nil {
		return nil
	}
	_, err := fmt.Fprintf(to, "metrics at http://%s/metrics\n", m.addr)
	return err
}

// watchReadiness says how /readyz is answered from now on.
func (m *monitor) watchReadiness(ready func() error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = ready
}

// close ends the server and what it was answering.
func (m *monitor) close() error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), monitorClose)
	defer cancel()
	err := m.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = m.server.Close() // a profile under way
	}
	m.serving.Wait()
	return errors.Join(err, m.failure)
}
