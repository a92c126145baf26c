package sim_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/coda-ml/coda/dist/sim"
)

// inference is the service of eight workers any six of which hold the weights.
func inference(t *testing.T, model string, utilisation float64, requests int) sim.Service {
	t.Helper()
	m, err := sim.ParseModel(model, 8)
	if err != nil {
		t.Fatal(err)
	}
	s := sim.Service{Job: sim.KOfN(8, 6), Strategy: sim.Uncoded{}, Model: m, Seed: 1, Requests: requests}
	if s.Rate, err = sim.RateOf(t.Context(), s, utilisation); err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t *testing.T, s sim.Service) *sim.Served {
	t.Helper()
	r, err := sim.Serve(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The latest one in a thousand answers comes in half the time, whether requests
// are worked on together or one after the other.
func TestCodedTailIsHalfOfUncoded(t *testing.T) {
	s := inference(t, "shifted-exp=1,1", 0.3, 5000)
	for _, s.Together = range []int{0, 1} {
		s.Strategy = sim.Uncoded{}
		uncoded := serve(t, s)
		s.Strategy = sim.Adaptive{K: 6, Chunks: 24}
		adaptive := serve(t, s)
		if !(adaptive.P999 <= uncoded.P999/2) || !(adaptive.P50 <= uncoded.P50) {
			t.Errorf("%d together: adaptive %v at the median and %v at 99.9 %%, uncoded %v and %v", s.Together, adaptive.P50, adaptive.P999, uncoded.P50, uncoded.P999)
		}
	}
}

// One server whose requests take the same time and come by a Poisson process waits
// rho/(2 (1-rho)) of that time in the mean (M/D/1: Pollaczek, Khinchine), and one
// whose times are exponential rho/(1-rho).
func TestServeIsPollaczekKhinchine(t *testing.T) {
	const rho, requests = 0.6, 100000
	for model, want := range map[string]float64{"none": 1 + rho/(2*(1-rho)), "exp=1": 1 + rho/(1-rho)} {
		m, err := sim.ParseModel(model, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := serve(t, sim.Service{Job: sim.KOfN(1, 1), Strategy: sim.Uncoded{}, Model: m, Seed: 3, Rate: rho, Requests: requests})
		// The mean of a queue of this load has a deviation of about 1 % here.
		if math.Abs(r.Mean/want-1) > 0.04 || math.Abs(r.Busy/rho-1) > 0.02 {
			t.Errorf("%s: mean time %v and busy %v, want %v and %v", model, r.Mean, r.Busy, want, rho)
		}
	}
}

// A cluster that is all but idle serves each request as a round of its own. The
// adaptive round gives a worker its next chunk already when the one at work on has
// become needless, and so not always the same.
func TestServeOfRareRequestsIsRun(t *testing.T) {
	for strategy, within := range map[sim.Strategy]float64{sim.Uncoded{}: 1e-6, sim.MDS{K: 6}: 1e-6, sim.Adaptive{K: 6, Chunks: 12}: 0.2} {
		s := inference(t, "shifted-exp=1,1", 0.3, 200)
		s.Rate, s.Strategy = 1e-6, strategy
		run, err := sim.Run(t.Context(), sim.Config{Job: s.Job, Strategy: strategy, Model: s.Model, Seed: s.Seed, Rounds: s.Requests})
		if err != nil {
			t.Fatal(err)
		}
		for i, took := range serve(t, s).Times {
			// The clock of a service counts from its beginning, and rounds there.
			if want := run.Rounds[i].Time; math.Abs(took-want) > within*want {
				t.Fatalf("%s: request %d took %v, the round %v", strategy.Name(), i+1, took, want)
			}
		}
	}
}

func TestServeIsAFunctionOfItsSeed(t *testing.T) {
	s := inference(t, "pareto=1,2", 0.3, 500)
	s.Strategy = sim.Adaptive{K: 6, Chunks: 8}
	first, again := serve(t, s), serve(t, s)
	if !reflect.DeepEqual(first, again) {
		t.Error("the same service gives other figures the second time")
	}
	s.Seed++
	if reflect.DeepEqual(first.Times, serve(t, s).Times) {
		t.Error("another seed gives the same figures")
	}
}

// A worker that stands still is given up with its request, and where a request
// cannot do without it, that one is never answered.
func TestServeWithWorkersThatStop(t *testing.T) {
	s := sim.Service{Job: sim.KOfN(4, 2), Strategy: sim.Adaptive{K: 2, Chunks: 4}, Model: sim.Kill{Workers: []int{1}, Round: 10}, Seed: 1, Rate: 0.1, Requests: 50}
	if r := serve(t, s); r.Failed != 0 {
		t.Errorf("%d requests failed that three of four workers can answer", r.Failed)
	}
	s.Strategy = sim.Uncoded{}
	if r := serve(t, s); r.Failed != 41 || math.IsInf(r.P999, 1) {
		t.Errorf("%d requests failed, the rest took up to %v; want 41 after the tenth and finite times", r.Failed, r.P999)
	}
	s.Model = sim.Kill{Round: 1}
	if r := serve(t, s); r.Failed != 50 || !math.IsInf(r.Mean, 1) {
		t.Errorf("%d requests failed without workers, mean %v", r.Failed, r.Mean)
	}
}

func TestServeRefuses(t *testing.T) {
	good := sim.Service{Job: sim.KOfN(4, 2), Strategy: sim.MDS{K: 2}, Seed: 1, Rate: 0.1, Requests: 10}
	for want, spoil := range map[string]func(*sim.Service){
		"rate of requests":     func(s *sim.Service) { s.Rate = math.NaN() },
		"0 rounds":             func(s *sim.Service) { s.Requests = 0 },
		"no strategy":          func(s *sim.Service) { s.Strategy = nil },
		"-1 requests at a":     func(s *sim.Service) { s.Together = -1 },
		"strategy mds: k is":   func(s *sim.Service) { s.Strategy = sim.MDS{K: 9} },
		"faster than they can": func(s *sim.Service) { s.Rate, s.Requests = 1e3, 1<<15 },
	} {
		s := good
		spoil(&s)
		if _, err := sim.Serve(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	for want, f := range map[string]func() error{
		"utilisation 1": func() error { _, err := sim.RateOf(t.Context(), good, 1); return err },
		"never end": func() error {
			s := good
			s.Model = sim.Kill{Round: 1}
			_, err := sim.RateOf(t.Context(), s, 0.3)
			return err
		},
		"0 rounds, want": func() error { s := good; s.Requests = 0; _, err := sim.RateOf(t.Context(), s, 0.3); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	good.Requests = 10000
	if _, err := sim.Serve(ctx, good); !errors.Is(err, stopped) {
		t.Errorf("%v, want the context's error", err)
	}
}
