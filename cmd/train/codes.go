package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/coda-ml/coda/coded"
)

// codesCmd shows the catalogue of codes, or one of them.
type codesCmd struct {
	Name     string `arg:"" optional:"" help:"Code to show; without it, a table of all."`
	N        int    `name:"n" placeholder:"N" help:"Tasks (default: those of the code's last example)."`
	K        int    `name:"k" placeholder:"N" help:"Blocks of the coded operand, or parts of a sum of gradients."`
	M        int    `name:"m" placeholder:"N" help:"Row blocks of the left operand."`
	P        int    `name:"p" placeholder:"N" help:"Blocks of the inner dimension."`
	Q        int    `name:"q" placeholder:"N" help:"Column blocks of the right operand."`
	Batch    int    `placeholder:"N" help:"Products at once."`
	Load     int    `placeholder:"N" help:"What a task holds: coded blocks, rows or parts."`
	Weight   int    `placeholder:"N" help:"Blocks that a coded block combines."`
	Groups   int    `placeholder:"N" help:"Groups of tasks, blocks or layers."`
	Seed     uint64 `placeholder:"N" help:"Seed of coefficients that are drawn."`
	Sets     int    `default:"2000" placeholder:"N" help:"Sets of answers to try; all if there are no more (default ${default})."`
	Explain  bool   `help:"Draw who computes what, and how a set of answers is decoded."`
	Numerics bool   `help:"Condition numbers of all codes of k blocks over many sizes."`
	JSON     string `name:"json" placeholder:"PATH" help:"Write JSON lines instead of a table ('-': to standard output)."`
}

// codeRow is what is told of a code, in the table and in JSON.
type codeRow struct {
	Code      string  `json:"code"`
	Kind      string  `json:"kind"`
	N         int     `json:"n"`
	K         int     `json:"k"` // blocks of the left operand
	Threshold int     `json:"threshold"`
	Checked   string  `json:"checked"` // how the threshold was tested
	Compute   float64 `json:"compute"` // loads of a task, of the whole job
	UploadA   float64 `json:"upload_a"`
	UploadB   float64 `json:"upload_b"`
	Download  float64 `json:"download"`
	Worst     figure  `json:"cond_worst"`
	Median    figure  `json:"cond_median"`
	Spec      string  `json:"spec"` // as coded.Spec prints it
	Doc       string  `json:"doc"`
	Paper     string  `json:"paper"`
}

// Run prints the catalogue.
func (c *codesCmd) Run(ctx context.Context, t terminal) error {
	if c.Sets < 1 {
		return usageError{fmt.Errorf("--sets %d: want at least 1", c.Sets)}
	}
	if c.Numerics {
		return c.numerics(ctx, t)
	}
	specs, err := c.specs()
	if err != nil {
		return usageError{err}
	}
	if c.Explain {
		return explainCodes(t.stdout, specs)
	}
	table := newCodeTable(t.stdout)
	out, closeOut, err := openRows(c.JSON, table.add, t)
	if err != nil {
		return err
	}
	if err = c.describe(ctx, specs, out); err == nil && c.JSON == "" {
		err = table.end(c.Name != "")
	}
	return errors.Join(err, closeOut())
}

// drawable is the first example of a family that combines anything.
func drawable(f coded.Family) coded.Spec {
	for _, s := range f.Examples {
		if s.K != 1 && s.N > 2 {
			return s
		}
	}
	return f.Examples[0]
}

// describe gives a row for each code.
func (c *codesCmd) describe(ctx context.Context, specs []coded.Spec, out rows) error {
	for _, spec := range specs {
		if err := ctx.Err(); err != nil {
			return err
		}
		code, err := coded.New(spec)
		if err != nil {
			return usageError{err}
		}
		row, err := c.row(spec, code)
		if err != nil {
			return err
		}
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

// row tests and measures a code.
func (c *codesCmd) row(spec coded.Spec, code *coded.Code) (codeRow, error) {
	rng := rand.New(rand.NewPCG(spec.Seed, uint64(spec.N)))
	checked, err := checkThreshold(code, c.Sets, rng)
	if err != nil {
		return codeRow{}, err
	}
	cond, err := code.Conditions(c.Sets, rng)
	if err != nil {
		return codeRow{}, err
	}
	l := code.Loads()
	return codeRow{
		Code: code.Name(), Kind: code.Kind().String(), N: code.N(), K: code.K(), Threshold: code.Threshold(), Checked: checked,
		Compute: l.Compute, UploadA: l.A, UploadB: l.B, Download: l.Download,
		Worst: figure(cond.Worst), Median: figure(cond.Median),
		Doc: code.Doc(), Paper: code.Paper(), Spec: spec.String(),
	}, nil
}

// figure is a number that may be infinite, which in JSON is null.
type figure float64

// MarshalJSON writes the number.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// checkThreshold tests the threshold by ranks in exact arithmetic and says how.
func checkThreshold(code *coded.Code, sets int, rng *rand.Rand) (string, error) {
	if code.Approximate() || code.Threshold() == 0 {
		return "no claim", nil
	}
	report, err := code.CheckThreshold(sets, rng)
	switch {
	case err != nil:
		return "", err
	case report.Refuted != nil:
		return fmt.Sprintf("WRONG: %v", report.Refuted), nil
	case report.Tight == nil:
		return fmt.Sprintf("not tight, %d sets", report.Sets), nil
	case report.Sets == 1:
		return "the only set", nil
	case report.Exhaustive:
		return fmt.Sprintf("all %d sets", report.Sets), nil
	}
	return fmt.Sprintf("%d sets", report.Sets), nil
}

// codeTable prints codes for people.
type codeTable struct {
	w    *tabwriter.Writer
	to   io.Writer
	last codeRow
}

func newCodeTable(to io.Writer) *codeTable {
	t := &codeTable{w: tabwriter.NewWriter(to, 0, 8, 2, ' ', 0), to: to}
	fmt.Fprintln(t.w, "code\tn\tblocks\tneeds\ttested\tcompute\tA\tB\tback\tworst\tmedian")
	return t
}

func (t *codeTable) add(row any) error {
	r, ok := row.(codeRow)
	if !ok {
		return fmt.Errorf("codes: a row is a %T", row)
	}
	t.last = r
	needs := "-"
	if r.Threshold > 0 {
		needs = strconv.Itoa(r.Threshold)
	}
	_, err := fmt.Fprintf(t.w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.3g\t%.3g\n", r.Code, r.N, r.K, needs, r.Checked,
		share(r.Compute), share(r.UploadA), share(r.UploadB), share(r.Download), float64(r.Worst), float64(r.Median))
	return err
}

// share prints a fraction of the whole in percent.
func share(x float64) string { return fmt.Sprintf("%.3g%%", 100*x) }

// end prints the table and, for a single code, what it is.
func (t *codeTable) end(single bool) error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	text := "\nneeds: tasks of which any decode, tested by ranks in exact arithmetic. compute, A, B, back: a task's share of the job's\n" +
		"products, of the operands and of the outputs. worst, median: condition number over sets of as many answers as needed.\n"
	if single {
		text += fmt.Sprintf("\n%s: %s\n%s\n", t.last.Spec, t.last.Doc, t.last.Paper)
	}
	_, err := io.WriteString(t.to, text)
	return err
}

// specs lists what to show: the example of every family, or the one asked for.
func (c *codesCmd) specs() ([]coded.Spec, error) {
	asked := coded.Spec{
		Name: c.Name, N: c.N, K: c.K, M: c.M, P: c.P, Q: c.Q,
		Batch: c.Batch, Load: c.Load, Weight: c.Weight, Groups: c.Groups, Seed: c.Seed,
	}
	if c.Name == "" && asked != (coded.Spec{}) {
		return nil, errors.New("sizes are those of one code: say which; known: " + strings.Join(coded.Names(), ", "))
	}
	var specs []coded.Spec
	for _, f := range coded.Families() {
		switch example := f.Examples[len(f.Examples)-1]; {
		case c.Name == "" && c.Explain:
			specs = append(specs, drawable(f))
		case c.Name == "":
			specs = append(specs, example)
		case c.Name == f.Name && asked == (coded.Spec{Name: c.Name}) && c.Explain:
			return []coded.Spec{drawable(f)}, nil
		case c.Name == f.Name && asked == (coded.Spec{Name: c.Name}):
			return []coded.Spec{example}, nil
		case c.Name == f.Name:
			return []coded.Spec{asked}, nil
		}
	}
	if c.Name != "" {
		return nil, fmt.Errorf("no code %q; known: %s", c.Name, strings.Join(coded.Names(), ", "))
	}
	return specs, nil
}
