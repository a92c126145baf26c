package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/sim"
)

// benchCmd measures. Every benchmark writes rows: JSON objects for programs,
// a table for people.
type benchCmd struct {
	Names   []string `arg:"" name:"name" help:"What to measure: gemm (float32 products), combine (encoding and decoding), conv (convolutions), convnet, resnet20, vgg (training and inference steps), layer (one resident Linear, or with --conv one convolution resident and with coded batches, over paced worker processes), round (strategies against stragglers, one product a round over paced worker processes), sim (strategies against stragglers in virtual time), wire (tensors over loopback: bare, framed, encrypted), serve (how long requests take that come by a Poisson process, in virtual time and over paced worker processes), scale (many nodes over a network in memory, and more in virtual time), exact (two 4000x4000 matrices of bytes multiplied modulo 65537 by a polynomial code over 17 worker processes, on a wire of its own: TCP on loopback with checksums, without TLS)."`
	JSON    string   `name:"json" placeholder:"PATH" help:"Write JSON lines instead of a table ('-': to standard output)."`
	Threads int      `placeholder:"N" help:"Goroutines that compute (default: the processor's cores)."`
	Seconds float64  `default:"2" placeholder:"S" help:"Time a figure is measured for (default ${default})."`
	Workers int      `placeholder:"N" help:"Worker processes of layer and round, simulated workers of sim, nodes of scale (default: 8; of scale 200)."`
	K       int      `name:"k" placeholder:"N" help:"Answers that suffice (default: three quarters of the workers)."`
	Pace    *float64 `placeholder:"GFLOPS" help:"Speed of a worker (default: 20 in layer, where 0 means as fast as it can; 2 in round)."`
	In      int      `name:"in" placeholder:"N" help:"Input features of the layer (default: 4096 in layer, 2048 in round)."`
	Outputs int      `name:"outputs" placeholder:"N" help:"Output features of the layer (default: 4096 in layer, 2048 in round)."`
	Conv    string   `placeholder:"INxOUTxHEIGHTxWIDTH" help:"A 3x3 convolution of that size in place of the Linear of layer."`
	Batch   int      `placeholder:"N" help:"Rows of the operands (default: 64 in layer, 256 in round)."`
	Size    int      `default:"4000" placeholder:"N" help:"Rows and columns of the exact benchmark's matrices, a multiple of 4 (default ${default})."`
	simFlags
	roundFlags
	serveFlags
	sized bool // --workers was given
	now   func() time.Time
}

// benchmark measures one thing and gives its rows to out.
type benchmark func(ctx context.Context, b *benchCmd, out rows) error

// benchmarks lists what can be measured.
var benchmarks = map[string]benchmark{
	"gemm":     benchGemm,
	"combine":  benchCombine,
	"conv":     benchConv,
	"convnet":  benchModel("convnet", "convnet", 64, []int{1, 28, 28}),
	"resnet20": benchModel("resnet20", "resnet20", 128, []int{3, 32, 32}),
	"vgg":      benchModel("vgg", "vgg-small", 64, []int{3, 32, 32}),
	"layer":    benchLayer,
	"round":    benchRound,
	"sim":      benchSim,
	"serve":    benchServe,
	"wire":     benchWire,
	"exact":    benchExact,
	"scale":    benchScale,
}

// validate fills what depends on other settings and reports every problem.
func (b *benchCmd) validate() error {
	var p problems
	for _, name := range b.Names {
		if benchmarks[name] == nil {
			p.bad("unknown benchmark %q: choose among %s", name, strings.Join(slices.Sorted(maps.Keys(benchmarks)), ", "))
		}
	}
	p.atLeast("threads", b.Threads, 0)
	if !(b.Seconds > 0 && b.Seconds <= maxBenchSeconds) {
		p.bad("--seconds %g: want more than 0, and at most %d", b.Seconds, maxBenchSeconds)
	}
	if b.Pace != nil {
		p.fromZero("pace", *b.Pace)
	}
	p.atLeast("in", b.In, 0)
	p.atLeast("outputs", b.Outputs, 0)
	p.atLeast("batch", b.Batch, 0)
	p.atLeast("rounds", b.Rounds, 0)
	most := b.sizeCluster()
	if b.Workers < 1 || b.Workers > most || b.K < 1 || b.K > b.Workers {
		p.bad("--workers %d, --k %d: want 1 to %d workers and k from 1 to their number", b.Workers, b.K, most)
	}
	if b.Size < 4 || b.Size%4 != 0 || b.Size > maxExactSize {
		p.bad("--size %d: want a multiple of 4 up to %d", b.Size, maxExactSize)
	}
	if b.Threads == 0 {
		b.Threads = runtime.GOMAXPROCS(0)
	}
	return p.usage()
}

// maxBenchSeconds bounds how long a figure is measured for.
const maxBenchSeconds = 3600

// Run measures the named things one after another.
func (b *benchCmd) Run(ctx context.Context, t terminal) error {
	if err := b.validate(); err != nil {
		return err
	}
	b.now = time.Now
	out, closeOut, err := openRows(b.JSON, newBenchTable(t).add, t)
	if err != nil {
		return err
	}
	for _, name := range b.Names {
		if err := benchmarks[name](ctx, b, out); err != nil {
			return errors.Join(fmt.Errorf("bench %s: %w", name, err), closeOut())
		}
	}
	return closeOut()
}

// sizeCluster fills the sizes that were not given, and returns how many workers
// there may be at most for what is measured.
func (b *benchCmd) sizeCluster() (most int) {
	only := func(name string) bool {
		return !slices.ContainsFunc(b.Names, func(other string) bool { return other != name })
	}
	workers := 8
	switch {
	case only("scale"):
		workers, most = scaleWorkers, coded.MaxTasks
	case only("sim"):
		most = sim.MaxWorkers
	default:
		most = maxLocalWorkers
	}
	if b.sized = b.Workers != 0; !b.sized {
		b.Workers = workers
	}
	if b.K == 0 {
		b.K = max(1, b.Workers*3/4)
	}
	return most
}

// rows takes one figure after another; each is a struct with JSON names.
type rows func(row any) error

// openRows returns where the figures go and what to call at the end: the table if
// path is empty, standard output as JSON if it is "-", or else that file.
func openRows(path string, table rows, t terminal) (rows, func() error, error) {
	switch path {
	case "":
		return table, func() error { return nil }, nil
	case "-":
		return jsonSink{t.stdout}.emit, func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("--json: %w", err)
	}
	return jsonSink{f}.emit, f.Close, nil
}

// benchTable prints rows in columns; a row with other columns than the last
// begins a new table.
type benchTable struct {
	w       io.Writer
	columns int // of a terminal, where longer lines are folded; 0: none are
	head    string
}

// newBenchTable returns a table on standard output.
func newBenchTable(t terminal) *benchTable {
	return &benchTable{w: t.stdout, columns: terminalWidth(t.stdout)}
}

func (t *benchTable) add(row any) error {
	names, values, err := columns(row)
	if err != nil {
		return err
	}
	var head, line strings.Builder
	at := 0
	for i, name := range names {
		width := max(len(name), 9)
		if at += 2 + width; t.columns > 0 && at > t.columns && i > 0 {
			const indent = "\n    "
			head.WriteString(indent)
			line.WriteString(indent)
			at = len(indent) - 1 + 2 + width
		}
		fmt.Fprintf(&head, "  %*s", width, name)
		fmt.Fprintf(&line, "  %*s", width, values[i])
	}
	if h := head.String(); h != t.head {
		t.head = h
		if _, err := fmt.Fprintln(t.w, h); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(t.w, line.String())
	return err
}

// columns returns the JSON names and printed values of a row, in its order.
func columns(row any) (names, values []string, err error) {
	text, err := json.Marshal(row)
	if err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, nil, err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		value, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		if name == "system" {
			continue
		}
		names, values = append(names, fmt.Sprint(name)), append(values, cell(value))
	}
	return names, values, nil
}

// cell prints a value with four significant digits.
func cell(v any) string {
	if v == nil { // see figure
		return "inf"
	}
	n, ok := v.(json.Number)
	if !ok || !strings.ContainsAny(n.String(), ".e") {
		return fmt.Sprint(v)
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	if f >= 1000 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.4g", f)
}

// rate returns the median of work per second over the repetitions of f that
// fit into the benchmark's time, at least five, after a warm-up of a third of it.
func (b *benchCmd) rate(ctx context.Context, work float64, f func() error) (float64, error) {
	budget := time.Duration(b.Seconds * float64(time.Second))
	for end := b.now().Add(budget / 3); b.now().Before(end); {
		if err := f(); err != nil {
			return 0, err
		}
	}
	var got []float64
	for end := b.now().Add(budget); b.now().Before(end) || len(got) < 5; {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		began := b.now()
		if err := f(); err != nil {
			return 0, err
		}
		got = append(got, work/b.now().Sub(began).Seconds())
	}
	return median(got), nil
}

// median returns the median of the values, which it sorts.
func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
