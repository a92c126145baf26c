package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// summaryCmd shows what a run would train, or what one has trained.
type summaryCmd struct {
	Path      string `arg:"" optional:"" name:"path" help:"A run folder or a YAML file, whose settings are taken; flags win."`
	Model     string `placeholder:"NAME" help:"Model: ${models} (default convnet)."`
	Dataset   string `placeholder:"NAME" help:"Data set: ${datasets} (default mnist). Only folder:PATH is read."`
	DataDir   string `placeholder:"DIR" help:"Folder that a relative folder:PATH is in."`
	Batch     string `placeholder:"N" help:"Images a step."`
	Placement string `placeholder:"NAME" help:"Where the layers' products are computed, as in train run."`
	Code      string `placeholder:"NAME" help:"Code of the placed layers."`
	Workers   string `placeholder:"N" help:"Workers, each with a shard of every placed layer."`
	K         string `name:"k" placeholder:"N" help:"Answers that suffice."`
	Dot       string `placeholder:"PATH" help:"Write the graph of a training step in Graphviz's language, with the rounds of placed layers."`
	JSON      string `name:"json" placeholder:"PATH" help:"Write the summary as one JSON object ('-': to standard output, and nothing else there)."`
}

// Run prints the summary.
func (s *summaryCmd) Run(ctx context.Context, t terminal) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	r := &run{runFlags: &settings.runFlags, lists: settings.lists}
	report, err := summarise(ctx, r)
	if err != nil {
		return err
	}
	if s.Dot != "" {
		if err := r.writeGraph(ctx, s.Dot); err != nil {
			return fmt.Errorf("--dot: %w", err)
		}
	}
	return writeReport(t, s.JSON, report)
}

// writeGraph writes the graph of a step to a file. The placed layers get an executor
// in this process: nothing is computed.
func (r *run) writeGraph(ctx context.Context, path string) (err error) {
	local := shard.NewLocal(shard.LocalConfig{})
	for _, use := range r.placed {
		use(local)
	}
	if err := nn.Place(ctx, r.model, nil); err != nil {
		return err
	}
	network, err := nn.NewNetwork(r.model, r.train.Shape, nn.Config{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(network.WriteDot(f, r.Batch), f.Close())
}

// settings are those that train run would have with the same arguments.
func (s *summaryCmd) settings() (*runCmd, error) {
	args := []string{"run"}
	if s.Path != "" {
		path := s.Path
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, configName)
		}
		args = append(args, "--config="+path)
	}
	for _, f := range []struct{ name, value string }{
		{"model", s.Model}, {"dataset", s.Dataset}, {"data-dir", s.DataDir}, {"batch", s.Batch},
		{"placement", s.Placement}, {"code", s.Code}, {"workers", s.Workers}, {"k", s.K},
	} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	c, err := parseQuietly(args...)
	if err != nil {
		return nil, usageError{err}
	}
	if s.Workers != "" {
		c.Run.N = 0 // as many shards as workers, whatever the run had
	}
	if err := c.Run.validate(runtime.GOMAXPROCS(0), c.Run.lists); err != nil {
		return nil, usageError{err}
	}
	return &c.Run, nil
}

// summary is one JSON object.
type summary struct {
	Event   string       `json:"event"` // summary
	Model   string       `json:"model"`
	Dataset string       `json:"dataset"`
	Input   []int        `json:"input"` // of one image
	Classes int          `json:"classes"`
	Batch   int          `json:"batch"`
	Layers  []summaryRow `json:"layers"`
	Params  int          `json:"parameters"`
	Trained int          `json:"trained"`
	Flops   int64        `json:"flops"`          // see summaryRow
	Bytes   int64        `json:"bytes_per_step"` // see summaryRow
}

type summaryRow struct {
	Layer      string `json:"layer"`
	Kind       string `json:"kind"`
	Output     []int  `json:"output"` // of one image
	Parameters int    `json:"parameters"`
	Flops      int64  `json:"flops"` // forward, of one image; only products, a multiplication and an addition are two
	Placement  string `json:"placement,omitempty"`
	Code       string `json:"code,omitempty"`
	N          int    `json:"n,omitempty"`
	K          int    `json:"k,omitempty"`
	Bytes      int64  `json:"bytes_per_step,omitempty"` // on the wire, at least; of a resident layer n(|X|+|dY|) + |Y| + |dX|
	placed     layerInfo
}

// summarise builds the model and decides where its layers compute, as a run does.
func summarise(ctx context.Context, r *run) (*summary, error) {
	shape, classes, err := datasets.Describe(ctx, r.Dataset, r.dataOptions())
	if errors.Is(err, datasets.ErrUnknown) {
		return nil, usageError{fmt.Errorf("--dataset: %w", err)}
	}
	if err != nil {
		return nil, err
	}
	r.train = &datasets.Set{Shape: shape, Classes: classes}
	if err := r.buildModel(); err != nil {
		return nil, err
	}
	if err := r.setParams(); err != nil {
		return nil, err
	}
	layers, err := nn.Describe(r.model, shape)
	if err != nil {
		return nil, err
	}
	if err := r.place(); err != nil {
		return nil, err
	}
	s := &summary{Event: "summary", Model: r.Model, Dataset: r.Dataset, Input: shape, Classes: classes, Batch: r.Batch, Params: r.parameters, Trained: r.trained}
	products, err := nn.Placeables(r.model)
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		s.add(r, l, products)
	}
	return s, nil
}

// add adds the row of a layer.
func (s *summary) add(r *run, l nn.LayerInfo, products []nn.Placeable) {
	row := summaryRow{Layer: l.Name, Kind: l.Kind, Output: l.Output, Parameters: l.Parameters, Flops: l.Flops}
	for _, placed := range r.layers {
		if placed.Layer == l.Name {
			row.Placement, row.Code, row.N, row.K, row.placed = placed.Placement, placed.Code, placed.N, placed.K, placed
		}
	}
	if row.Code != "" {
		row.Bytes = r.placedBytes(l, row, products)
	}
	s.Flops += row.Flops
	s.Bytes += row.Bytes
	s.Layers = append(s.Layers, row)
}

// placedBytes is what a step sends and receives for a placed layer at least. The
// gradient of the input is not computed where nothing before the layer is trained:
// but workers with the weights make their gradient from dY even so.
func (r *run) placedBytes(l nn.LayerInfo, row summaryRow, products []nn.Placeable) int64 {
	i := slices.IndexFunc(products, func(p nn.Placeable) bool { return p.Name == l.Name })
	if i < 0 {
		return 0
	}
	n, k, in, out := int64(row.N), int64(row.K), entries(l.Input), entries(l.Output)
	p, samples := products[i], int64(r.Batch)
	var floats int64
	switch row.Placement {
	case plan.Resident:
		floats = samples * (n*(in+out) + out)
	case plan.Shipped:
		return shippedBytes(row.placed.spec, samples, l, p)
	case plan.Batch: // coded blocks go out, blocks come back
		samples = int64(coded.Blocks(r.Batch, row.K).Size)
		floats = samples * (n*in + k*out)
		if !p.Weight.Frozen {
			floats += n * int64(p.Weight.Size())
		}
		if !p.First {
			floats += samples * n * out
		}
		if row.placed.Gradient > 0 {
			floats += gradientSamples(row.placed.gradientSpec, r.Batch)*n*(in+out) + int64(row.placed.Gradient)*int64(p.Weight.Size())
		}
		samples *= k
	}
	if !p.First {
		floats += samples * in
	}
	return 4 * floats
}

// gradientSamples is how many samples of X and dY a slot is sent for the gradient over a
// coded batch.
func gradientSamples(spec coded.Spec, batch int) int64 {
	code, err := coded.New(spec)
	if err != nil {
		return 0
	}
	if parts, err := shard.NewPartsCoder(code, false); err == nil {
		return int64(parts.Shape([]int{batch})[1])
	}
	return int64(coded.Blocks(batch, code.K()).Size)
}

// entries is the number of entries of a shape.
func entries(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// text is the summary for people.
func (s *summary) text() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s on %s: images of %s, %d classes, %d images a step\n\n", s.Model, s.Dataset, times(s.Input), s.Classes, s.Batch)
	name := widest("layer", s.Layers, func(l summaryRow) string { return l.Layer })
	kind := widest("computes", s.Layers, func(l summaryRow) string { return l.Kind })
	output := widest("output", s.Layers, func(l summaryRow) string { return times(l.Output) })
	line := func(layer, computes, shape, parameters, flops, placement string) {
		text := fmt.Sprintf("%-*s  %-*s  %*s  %10s  %13s  %s", name, layer, kind, computes, output, shape, parameters, flops, placement)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("layer", "computes", "output", "parameters", "flops", "placement")
	for _, l := range s.Layers {
		line(l.Layer, l.Kind, times(l.Output), fmt.Sprint(l.Parameters), fmt.Sprint(l.Flops), l.Placement)
	}
	line("sum", "", "", fmt.Sprint(s.Params), fmt.Sprint(s.Flops), "")
	b.WriteString("\n" + s.codes())
	fmt.Fprintf(b, "%d of %d parameters are trained. Flops are those of one image forward:\nproducts only, a multiplication and an addition are two.\n", s.Trained, s.Params)
	if s.Bytes > 0 {
		fmt.Fprintf(b, "A step sends and receives at least %s for the placed layers.\n", bytesText(s.Bytes))
	}
	return b.String()
}

// codes says how the placed layers are coded, those that are coded alike together.
func (s *summary) codes() string {
	var order []string
	layers := map[string][]string{}
	for _, l := range s.Layers {
		if l.Code == "" {
			continue
		}
		how := fmt.Sprintf("%s, %s code, any %d of %d", l.Placement, l.Code, cmp.Or(l.placed.needs, l.K), l.N)
		if g := l.placed.Gradient; g > 0 {
			how += fmt.Sprintf(", and any %d for the gradient of the weights", g)
		}
		if layers[how] == nil {
			order = append(order, how)
		}
		layers[how] = append(layers[how], l.Layer)
	}
	b := &strings.Builder{}
	for _, how := range order {
		b.WriteString(paragraph("  ", "%s: %s", strings.Join(layers[how], ", "), how))
	}
	return b.String()
}

// times prints a shape: "3x32x32".
func times(shape []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}
