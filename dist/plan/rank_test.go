package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/dist/sim"
)

// wide is a Linear of 4096 x 4096.
var wide = plan.Product{Name: "fc", Kind: plan.Linear, In: 4096, Out: 4096, Weights: 1 << 24, X: 4096, Y: 4096, Flops: 2 << 24}

func workers(n int, speed float64) []float64 { return slices.Repeat([]float64{speed}, n) }

// free are machines whose network and memory cost nothing.
func free(local float64, speeds ...float64) plan.Machines {
	inf := math.Inf(1)
	return plan.Machines{Local: local, Speeds: speeds, Bandwidth: inf, Combine: inf, Memory: inf, Here: inf}
}

// alone are machines as close as one is to itself, that share nothing.
func alone(local float64, speeds ...float64) plan.Machines {
	m := plan.Loopback(local, speeds...)
	m.Beside = nil
	return m
}

func ask(t *testing.T, q plan.Question) *plan.Answer {
	t.Helper()
	a, err := plan.Make(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*math.Abs(want)) {
		t.Errorf("%s is %v, want %v within %v", what, got, want, within)
	}
}

// Where only computing costs, the times can be told on paper.
func TestTimesOnPaper(t *testing.T) {
	const flops, speed = 64 * 2 << 24, 20e9
	q := plan.Question{Machines: free(speed, workers(8, speed)...), Products: []plan.Product{wide}, Batch: 64, Chunks: 16}
	a := ask(t, q)
	near(t, "local", a.LocalMS, 1000*3*flops/speed, 1e-9)
	for _, c := range a.Layers[0].Candidates {
		if c.Placement == plan.Local {
			continue
		}
		// k/n of a shard in each of two rounds, and two shards of gradients.
		share := math.Ceil(4096/float64(c.K)) / 4096
		near(t, fmt.Sprintf("%s of %d", c.Code, c.K), c.StepMS, 1000*flops*share*(2*float64(c.K)/8+2)/speed, 0.02)
		if c.P99MS != c.StepMS {
			t.Errorf("without stragglers the 99th percentile is %v, the mean %v", c.P99MS, c.StepMS)
		}
	}
	if c := a.Layers[0].Chosen; c.Code != "uncoded" || a.StepMS != c.StepMS {
		t.Errorf("chosen %+v for a step of %v, want uncoded: nobody is slow and nobody has to be spared", c, a.StepMS)
	}
	q.Spare = 2
	if c := ask(t, q).Layers[0].Chosen; c.K != 6 || c.Losses != 2 {
		t.Errorf("chosen %+v, want any 6 of 8", c)
	}
}

// A first layer has two products here, and on the workers one round and one copy.
func TestFirstLayer(t *testing.T) {
	const flops, speed = 64 * 2 << 24, 20e9
	first := wide
	first.First = true
	a := ask(t, plan.Question{Machines: free(speed, workers(4, speed)...), Products: []plan.Product{first}, Batch: 64, Limits: plan.Limits{Codes: []string{"uncoded"}}})
	near(t, "local", a.LocalMS, 1000*2*flops/speed, 1e-9)
	near(t, "uncoded", a.StepMS, 1000*2*flops/speed/4, 1e-9)
	c := a.Layers[0].Chosen
	if x := 4.0 * 64 * 4096; c.Bytes != 4*2*x+x || c.Minimum != c.Bytes || c.Storage != 4*2*4096*1024 {
		t.Errorf("bytes %v of at least %v, storage %v", c.Bytes, c.Minimum, c.Storage)
	}
}

// With speeds of other workers everything else costs what it is said to.
func TestCostsOnTheWire(t *testing.T) {
	const x = 4 * 64 * 4096
	m := free(1e9, workers(8, 1e15)...) // they compute in no time
	m.Bandwidth, m.Latency = 1e9, 1e-3
	a := ask(t, plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 1, Limits: plan.Limits{Codes: []string{"uncoded"}, Must: true}})
	// Twice there and back, the last worker's operand, and its result on a link shared by all.
	want := 1000 * 2 * (2*m.Latency + 8*x/m.Bandwidth + x/m.Bandwidth)
	near(t, "step", a.StepMS, want, 0.001)
	near(t, "bytes", a.Bytes, 18*x, 1e-9)
}

// It is local when the workers are too slow, when the network is, and when there
// are none; and the reason says so.
func TestLocal(t *testing.T) {
	slow := plan.LAN(100e9, workers(8, 2e9)...)
	wire := plan.LAN(100e9, workers(8, 100e9)...)
	wire.Bandwidth = 1e6
	for why, m := range map[string]plan.Machines{
		"the workers' part alone takes": slow,
		"the network alone takes":       wire,
		"there are no workers":          plan.LAN(100e9),
	} {
		a := ask(t, plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64})
		if c := a.Layers[0].Chosen; c.Placement != plan.Local || !strings.Contains(c.Why, why) {
			t.Errorf("chosen %s because %q, want local because %q", c.Placement, c.Why, why)
		}
		near(t, "a local step", a.StepMS, a.LocalMS, 1e-12)
	}
	fast := ask(t, plan.Question{Machines: alone(10e9, workers(8, 10e9)...), Products: []plan.Product{wide}, Batch: 64})
	if c := fast.Layers[0].Chosen; c.Placement != plan.Resident || !strings.Contains(c.Why, "on the workers") || !(fast.StepMS < fast.LocalMS) {
		t.Errorf("chosen %s because %q", c.Placement, c.Why)
	}
}

// On both sides of the break-even the choice is the other one.
func TestBreakEven(t *testing.T) {
	q := plan.Question{Machines: plan.LAN(20e9, workers(8, 10e9)...), Products: []plan.Product{wide}, Batch: 64, Limits: plan.Limits{Codes: []string{"trigonometric"}, K: 6}}
	a := ask(t, q)
	i := slices.IndexFunc(a.Layers[0].Candidates, func(c plan.Candidate) bool { return c.Placement == plan.Resident })
	c := a.Layers[0].Candidates[i]
	if !(c.BreakEvenSpeed > 0) || !(c.BreakEvenBandwidth > 0) {
		t.Fatalf("no break-even: %+v", c)
	}
	for times, want := range map[float64]string{0.97: plan.Local, 1.03: plan.Resident} {
		by := q
		by.Machines.Speeds = workers(8, times*c.BreakEvenSpeed*20e9)
		if got := ask(t, by).Layers[0].Chosen.Placement; got != want {
			t.Errorf("workers of %v of the break-even speed: %s, want %s", times, got, want)
		}
		by = q
		by.Machines.Bandwidth = times * c.BreakEvenBandwidth
		if got := ask(t, by).Layers[0].Chosen.Placement; got != want {
			t.Errorf("%v of the break-even bandwidth: %s, want %s", times, got, want)
		}
	}
	q.Machines.Local = 1e15
	for _, c := range ask(t, q).Layers[0].Candidates {
		if c.BreakEvenBandwidth != 0 {
			t.Errorf("a bandwidth of %v makes slow workers pay", c.BreakEvenBandwidth)
		}
	}
}

// Stragglers make redundancy pay, and the 99th percentile is above the mean.
func TestStragglersMakeCodesPay(t *testing.T) {
	m := free(1e9, workers(8, 10e9)...)
	m.Straggler = sim.Slow{By: sim.ShiftedExp{A: 1, Mean: 1}}
	q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 16, Seed: 1}
	a := ask(t, q)
	if c := a.Layers[0].Chosen; c.Code != "trigonometric" || !(c.P99MS > c.StepMS) {
		t.Errorf("chosen %+v, want a code with redundancy", c)
	}
	if first, again := asJSON(t, a), asJSON(t, ask(t, q)); first != again {
		t.Errorf("the same question has another answer the second time: %s", cmp.Diff(first, again))
	}
	q.Machines.Straggler = sim.Kill{Workers: []int{1}, Round: 1}
	if _, err := plan.Make(t.Context(), q); err == nil || !strings.Contains(err.Error(), "layer fc: too few workers") {
		t.Errorf("error %v, want one that says who cannot do without the worker", err)
	}
}

func asJSON(t *testing.T, a *plan.Answer) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The update of a layer hides behind what the coordinator does meanwhile.
func TestUpdatesHideBehindTheCoordinator(t *testing.T) {
	const flops, speed = 64 * 2 << 24, 20e9
	ahead := plan.Product{Name: "ahead", Kind: plan.Linear, In: 1, Out: 1, Weights: 1, X: 1, Y: 1, Flops: 1, Fixed: "it is slow", Seconds: 10}
	q := plan.Question{Machines: free(speed, workers(8, speed)...), Products: []plan.Product{wide}, Batch: 64, Limits: plan.Limits{Codes: []string{"uncoded"}}}
	alone := ask(t, q).StepMS
	near(t, "a step alone", alone, 1000*4*flops/speed/8, 1e-9)
	q.Products = []plan.Product{ahead, wide}
	near(t, "a step after a slow layer", ask(t, q).StepMS, 1000*(ahead.Seconds+2*flops/speed/8), 1e-9)
	q.Products, q.Rest = []plan.Product{wide}, 3
	near(t, "a step with a rest between the rounds", ask(t, q).StepMS, 1000*q.Rest+alone, 1e-9)
	// Of two layers the update of the second hides behind the first one's way back.
	q.Products, q.Rest = []plan.Product{wide, wide}, 0
	q.Products[1].Name = "fc2"
	if both := ask(t, q).StepMS; !(both <= 2*alone*1.000001 && both >= 1.5*alone) {
		t.Errorf("two layers take %v, one %v", both, alone)
	}
}

func TestBatchAndShipped(t *testing.T) {
	conv := plan.Product{Name: "conv", Kind: plan.Conv2d, In: 256, Out: 256, Weights: 9 << 16, X: 1 << 16, Y: 1 << 16, Flops: 2 * 9 * 1 << 24}
	q := plan.Question{
		Machines: plan.LAN(100e9, workers(8, 20e9)...), Products: []plan.Product{conv}, Batch: 64,
		Limits: plan.Limits{Placements: []string{plan.Resident, plan.Batch, plan.Shipped}, Codes: []string{"trigonometric", "rotation"}, K: 6},
	}
	bytes, storage := map[string]float64{}, 0.0
	for _, c := range ask(t, q).Layers[0].Candidates {
		if c.Gradient > 0 {
			continue // dW comes back from everybody
		}
		bytes[c.Placement] = c.Bytes
		if c.Placement == plan.Batch {
			storage = c.Storage
		}
		if c.Placement != plan.Local && !(c.Bytes >= 0.999*c.Minimum && c.StepMS > 0 && c.Storage > 0) {
			t.Errorf("%+v", c)
		}
	}
	if len(bytes) != 4 {
		t.Errorf("placements %v, want all four", bytes)
	}
	// Samples are sent with their chunks, to the six that compute these: 66 of 64 for two products,
	// the weights to all.
	const x, w = 4 * 64 << 16, 4 * 9 << 16
	if want := 4*x*66./64 + 8*w; math.Abs(bytes[plan.Batch]/want-1) > 1e-9 {
		t.Errorf("%v bytes of a coded batch, want %v", bytes[plan.Batch], want)
	}
	// A worker has the weights, a block of X and of dY, and the weights' transforms for both products.
	if want := 9*w + 2*x*11./64; math.Abs(storage/want-1) > 1e-9 {
		t.Errorf("%v bytes on a worker, want %v", storage, want)
	}
	// The activations are 16.8 MB a batch, the weights 2.4: coded blocks of the batch are the least.
	if !(bytes[plan.Batch] < bytes[plan.Resident]/3) {
		t.Errorf("bytes %v", bytes)
	}
	q.Batch = 5
	for _, c := range ask(t, q).Layers[0].Candidates {
		if c.Placement == plan.Batch {
			t.Error("a batch of 5 is cut into 6 blocks")
		}
	}
}

// only are the limits of one placement with a code, any k of which suffice.
func only(placement, code string, k int) plan.Limits {
	return plan.Limits{Placements: []string{placement}, Codes: []string{code}, K: k, Must: true}
}

// On the way back both rounds are under way together: with workers that compute in no time
// a step of a shipped layer takes the time of four messages, not of six. So it does with
// coded batches, whoever makes dW, as long as that takes no longer here than dX there.
func TestRoundsOfTheWayBackAreInFlightTogether(t *testing.T) {
	m := free(1e15, workers(8, 1e15)...)
	m.Latency = 1e-3
	q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 1}
	for _, l := range []plan.Limits{only(plan.Shipped, "ortho-polynomial", 6), only(plan.Batch, "trigonometric", 6)} {
		q.Limits = l
		a := ask(t, q)
		for _, c := range a.Layers[0].Candidates {
			if c.Placement != plan.Local {
				near(t, fmt.Sprintf("%s, dW from %d", c.Placement, c.Gradient), c.StepMS, 1000*4*m.Latency, 0.001)
			}
		}
	}
	const flops = 64 * 2 << 24
	q.Machines.Local = flops / 5e-3
	for _, c := range ask(t, q).Layers[0].Candidates {
		if c.Placement == plan.Batch && c.Gradient == 0 {
			near(t, "dW here", c.StepMS, 1000*(2*m.Latency+5e-3), 0.001)
		}
	}
	q.Products[0].Seconds = 3 * 7e-3 // as measured: three products
	for _, c := range ask(t, q).Layers[0].Candidates {
		if c.Placement == plan.Batch && c.Gradient == 0 {
			near(t, "dW here, measured", c.StepMS, 1000*(2*m.Latency+7e-3), 0.001)
		}
	}
}

// New weights of a coded batch leave after the update: they delay the next step, unless the
// coordinator has something else to do meanwhile.
func TestWeightsAreSentAfterTheUpdate(t *testing.T) {
	const w = 8 * 4 << 24 // bytes to all workers
	m := free(1e15, workers(8, 1e15)...)
	m.Bandwidth = 1e9
	first := wide
	first.First, first.X, first.Y = true, 1, 1
	q := plan.Question{Machines: m, Products: []plan.Product{first}, Batch: 64, Limits: only(plan.Batch, "trigonometric", 6)}
	near(t, "a step", ask(t, q).StepMS, 1000*w/m.Bandwidth, 0.001)
	ahead := plan.Product{Name: "ahead", Kind: plan.Linear, In: 1, Out: 1, Weights: 1, X: 1, Y: 1, Flops: 1, Fixed: "it is slow", Seconds: 3}
	q.Products = []plan.Product{ahead, first}
	near(t, "a step after a slow layer", ask(t, q).StepMS, 1000*ahead.Seconds, 0.001)
}

// Encoding, copying what is sent, and decoding take what the memory allows.
func TestCombinationsTakeTime(t *testing.T) {
	m := free(1e15, workers(6, 1e15)...)
	m.Combine = 1e9
	const x = 4 * 64 * 4096
	for _, c := range []struct {
		limits plan.Limits
		bytes  float64
	}{
		// X and dY are copied, F and R decoded.
		{only(plan.Resident, "trigonometric", 4), 2*2*x + 2*2*x},
		// Of either 6 blocks of a quarter are made, and copied; the weights are copied.
		{only(plan.Batch, "trigonometric", 4), 2*(x*2.5+2*1.5*x) + 2*2*x + 2*4<<24},
		// Half of either factor for each of 6 workers: X and W, dY and W, dY and X.
		{only(plan.Shipped, "rotation", 4), (4*x+2*4<<24)*(1+3*6/2) + 2*(2*x+4<<24)},
	} {
		q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Limits: c.limits}
		a := ask(t, q)
		i := slices.IndexFunc(a.Layers[0].Candidates, func(c plan.Candidate) bool { return c.Placement != plan.Local && c.Gradient == 0 })
		near(t, c.limits.Placements[0], a.Layers[0].Candidates[i].StepMS, 1000*c.bytes/m.Combine, 0.001)
	}
}

// Without delays a shipped layer takes what its three products take at the workers, each
// of which does the code's part of them.
func TestShipped(t *testing.T) {
	const flops, speed = 64 * 2 << 24, 20e9
	q := plan.Question{
		Machines: free(speed, workers(8, speed)...), Products: []plan.Product{wide}, Batch: 64,
		Limits: plan.Limits{Placements: []string{plan.Shipped}, Codes: []string{"uncoded", "ortho-polynomial", "trigonometric"}, K: 6, Must: true},
	}
	a := ask(t, q)
	c := a.Layers[0].Chosen
	if c.Placement != plan.Shipped || c.Code != "ortho-polynomial" || c.K != 6 || c.M*c.Q != 6 || c.Losses != 2 {
		t.Errorf("chosen %+v, want any 6 of 8 by ortho-polynomial", c)
	}
	// Nobody is slow: all eight share the chunks.
	near(t, "a step", a.StepMS, 1000*3*flops/speed/8, 0.1)
	q.Products[0].Groups = 2
	if c := ask(t, q).Layers[0].Chosen; c.Placement != plan.Local {
		t.Errorf("a layer of groups is %s", c.Placement)
	}
	q.Products = []plan.Product{wide}
	q.Products[0].In = 1
	if c := ask(t, q).Layers[0].Chosen; c.Placement != plan.Local {
		t.Errorf("a layer of one input is %s", c.Placement)
	}
}

func TestMust(t *testing.T) {
	fixed, small := wide, wide
	fixed.Name, fixed.Fixed = "frozen", "it is frozen"
	small.Name, small.Out, small.Y, small.Weights, small.Flops = "small", 3, 3, 3*4096, 6*4096
	q := plan.Question{Machines: plan.LAN(1e15, workers(8, 1e9)...), Products: []plan.Product{wide, fixed, small}, Batch: 64, Limits: plan.Limits{Must: true, K: 6, Codes: []string{"trigonometric"}}}
	a := ask(t, q)
	for i, want := range []string{"resident as asked", "local it is frozen", "local 4096 x 3 features cannot be cut into 6 blocks"} {
		if c := a.Layers[i].Chosen; c.Placement+" "+c.Why != want {
			t.Errorf("%s: %s because %q, want %s", a.Layers[i].Layer, c.Placement, c.Why, want)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	good := plan.Question{Machines: plan.LAN(1e9, 1e9, 1e9), Products: []plan.Product{wide}, Batch: 64}
	for want, spoil := range map[string]func(*plan.Question){
		"coordinator's speed is 0": func(q *plan.Question) { q.Machines.Local = 0 },
		"speed of worker 2 is -1":  func(q *plan.Question) { q.Machines.Speeds = []float64{1, -1} },
		"worker 1 is infinite":     func(q *plan.Question) { q.Machines.Speeds = []float64{math.Inf(1)} },
		"bandwidth is NaN":         func(q *plan.Question) { q.Machines.Bandwidth = math.NaN() },
		"latency -1 s":             func(q *plan.Question) { q.Machines.Latency = -1 },
		"batch 0":                  func(q *plan.Question) { q.Batch = 0 },
		"k 3 of 2":                 func(q *plan.Question) { q.K = 3 },
		`placement "moon"`:         func(q *plan.Question) { q.Placements = []string{"moon"} },
		"layer 0, fc":              func(q *plan.Question) { q.Products = []plan.Product{{Name: "fc"}} },
		"no-such-code":             func(q *plan.Question) { q.Codes, q.K = []string{"no-such-code"}, 1 },
	} {
		q := good
		spoil(&q)
		if _, err := plan.Make(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := plan.Make(ctx, good); !errors.Is(err, stopped) {
		t.Errorf("%v, want the context's error", err)
	}
}

func ExampleMake() {
	layers := []plan.Product{
		{Name: "fc1", Kind: plan.Linear, In: 4096, Out: 4096, Weights: 1 << 24, X: 4096, Y: 4096, Flops: 2 << 24},
		{Name: "fc2", Kind: plan.Linear, In: 4096, Out: 10, Weights: 40960, X: 4096, Y: 10, Flops: 81920},
	}
	machines := plan.LAN(20e9, slices.Repeat([]float64{10e9}, 8)...)
	machines.Bandwidth = 1.25e9 // 10 Gbit/s
	answer, err := plan.Make(context.Background(), plan.Question{Machines: machines, Products: layers, Batch: 64, Limits: plan.Limits{Spare: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range answer.Layers {
		fmt.Println(l.Layer, l.Chosen.Placement, l.Chosen.Code, l.Chosen.N, l.Chosen.K)
	}
	fmt.Printf("%.0f ms a step, %.0f at the coordinator\n", answer.StepMS, answer.LocalMS)
	// Output:
	// fc1 resident trigonometric 8 6
	// fc2 local  0 0
	// 158 ms a step, 357 at the coordinator
}
