package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/coda-ml/coda/coded"
)

// explainTasks is the number of tasks up to which a code can be drawn.
const explainTasks = 24

// explainCodes draws codes one after another.
func explainCodes(w io.Writer, specs []coded.Spec) error {
	for i, spec := range specs {
		code, err := coded.New(spec)
		if err != nil {
			return usageError{err}
		}
		if code.N() > explainTasks {
			return usageError{fmt.Errorf("--explain: %v has %d tasks, a drawing at most %d", spec, code.N(), explainTasks)}
		}
		text, err := explain(spec, code)
		if err != nil {
			return err
		}
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// explain writes a code out: the blocks, what each worker holds and computes,
// and how the outputs come back when as many workers as may be are lost.
func explain(spec coded.Spec, code *coded.Code) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n  %s\n\n", spec, code.Doc())
	fmt.Fprintf(&b, "  blocks    %s\n", blocks(code))
	fmt.Fprintf(&b, "  wanted    %s\n\n", strings.Join(wantedOf(code), ", "))
	for t := range code.N() {
		for i, line := range taskLines(code, t) {
			who := ""
			if i == 0 {
				who = fmt.Sprintf("worker %d", t+1)
			}
			fmt.Fprintf(&b, "  %-10s%s\n", who, line)
		}
	}
	decoding, err := explainDecoding(code)
	if err != nil {
		return "", err
	}
	b.WriteString("\n" + decoding)
	return b.String(), nil
}

// blocks names the blocks of the operands.
func blocks(code *coded.Code) string {
	a := upTo("A", code.K())
	switch {
	case code.Kind() == coded.Gradients:
		return a + ", the gradients of the parts of the data"
	case code.BBlocks() == 1:
		return a + " of A; X goes to every worker"
	}
	return a + " of A, " + upTo("B", code.BBlocks()) + " of B"
}

// upTo names so many blocks: "A1 .. A4".
func upTo(side string, blocks int) string {
	if blocks == 1 {
		return side + "1"
	}
	return fmt.Sprintf("%s1 .. %s%d", side, side, blocks)
}

// wantedOf writes the outputs as sums of products of blocks.
func wantedOf(code *coded.Code) []string {
	outputs := make([]string, code.Outputs())
	for i, row := range code.Wanted() {
		var terms []string
		for j, v := range row {
			if v != 0 {
				terms = append(terms, summand(v, product(code, j)))
			}
		}
		outputs[i] = joinTerms(terms)
	}
	return outputs
}

// product names a column of the code's matrix: a product of two blocks.
func product(code *coded.Code, column int) string {
	a := fmt.Sprintf("A%d", column/code.BBlocks()+1)
	switch {
	case code.Kind() == coded.Gradients:
		return a
	case code.BBlocks() == 1:
		return a + " X"
	}
	return fmt.Sprintf("%s B%d", a, column%code.BBlocks()+1)
}

// taskLines writes what a task computes, a line for each of its results.
func taskLines(code *coded.Code, t int) []string {
	task := code.Task(t)
	results := task.Results
	if results == nil {
		for a := range task.A {
			for b := range task.B {
				results = append(results, coded.Output{{A: a, B: b}})
			}
		}
	}
	var lines []string
	for i, result := range results {
		var sum []string
		for _, p := range result {
			sum = append(sum, factors(code, task, p))
		}
		lines = append(lines, fmt.Sprintf("y%s = %s", answer(code, t, i), strings.Join(sum, " + ")))
	}
	return lines
}

// answer numbers a result: "3", or "3.2" for the second of several.
func answer(code *coded.Code, t, i int) string {
	if code.Results(t) == 1 {
		return fmt.Sprint(t + 1)
	}
	return fmt.Sprintf("%d.%d", t+1, i+1)
}

func factors(code *coded.Code, task coded.Task, p coded.Pair) string {
	a := combination("A", task.A[p.A])
	switch {
	case code.Kind() == coded.Gradients:
		return a
	case code.BBlocks() == 1:
		return "(" + a + ") X"
	}
	return "(" + a + ") (" + combination("B", task.B[p.B]) + ")"
}

// combination writes a coded block as a sum of blocks.
func combination(side string, row []float64) string {
	var terms []string
	for j, v := range row {
		if math.Abs(v) > 1e-12 {
			terms = append(terms, summand(v, fmt.Sprintf("%s%d", side, j+1)))
		}
	}
	return joinTerms(terms)
}

// summand writes v times something, "-" in front if v is negative.
func summand(v float64, of string) string {
	switch {
	case math.Abs(v-1) < 1e-9:
		return of
	case math.Abs(v+1) < 1e-9:
		return "-" + of
	}
	return fmt.Sprintf("%.3g %s", v, of)
}

func joinTerms(terms []string) string {
	if len(terms) == 0 {
		return "0"
	}
	return strings.ReplaceAll(strings.Join(terms, " + "), "+ -", "- ")
}

// explainDecoding loses the workers of the middle and decodes from the others.
func explainDecoding(code *coded.Code) (string, error) {
	have := survivors(code)
	w, err := coded.NewDecoder(code, coded.DecoderConfig{MaxCond: math.Inf(1)}).Weights(have)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  if there are answers of %s (condition number %.3g", workers(have), w.Cond)
	if w.Residual > 1e-12 {
		fmt.Fprintf(&b, ", expected squared error %.2g", w.Residual)
	}
	b.WriteString(")\n")
	names := answers(code, have)
	for i, want := range wantedOf(code) {
		var terms []string
		for j, v := range w.Row(i) {
			if math.Abs(v) > 1e-9 {
				terms = append(terms, summand(v, "y"+names[j]))
			}
		}
		fmt.Fprintf(&b, "  %s = %s\n", want, joinTerms(terms))
	}
	return b.String(), nil
}

// survivors leaves as many workers as are needed: those of the middle are lost.
func survivors(code *coded.Code) []int {
	need := code.Threshold()
	if need == 0 {
		need = code.N()
	}
	var have []int
	for t := range code.N() {
		if t < (need+1)/2 || t >= code.N()-need/2 {
			have = append(have, t)
		}
	}
	return have
}

// answers names the results of a set of tasks, in the order of decode weights.
func answers(code *coded.Code, have []int) []string {
	var names []string
	for _, t := range have {
		for i := range code.Results(t) {
			names = append(names, answer(code, t, i))
		}
	}
	return names
}

func workers(have []int) string {
	names := make([]string, len(have))
	for i, t := range have {
		names[i] = fmt.Sprint(t + 1)
	}
	if len(names) == 1 {
		return "worker " + names[0] + " alone"
	}
	return "only workers " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
