package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn/train"
)

// evalReport is what train eval finds, one JSON object.
type evalReport struct {
	Event      string      `json:"event"` // eval
	Model      string      `json:"model"`
	Dataset    string      `json:"dataset"`
	Checkpoint string      `json:"checkpoint"`
	Step       int         `json:"step"`
	Averaged   bool        `json:"averaged"` // the weights are averages (--ema)
	Broken     []string    `json:"broken,omitempty"`
	Placement  string      `json:"placement"`
	Code       string      `json:"code,omitempty"`
	N          int         `json:"n,omitempty"`
	K          int         `json:"k,omitempty"`
	Latency    *latencies  `json:"latency,omitempty"` // of --requests
	Images     int         `json:"images"`
	Loss       float64     `json:"loss"`
	Accuracy   float64     `json:"accuracy"`
	MacroF1    float64     `json:"macro_f1"` // mean over the classes
	Classes    []evalClass `json:"classes"`
	Confusion  [][]int     `json:"confusion"` // by class and by what it is taken for
}

type evalClass struct {
	Class     string  `json:"class"`
	Images    int     `json:"images"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

func newEvalReport(f *runFlags, set *datasets.Set, c train.Checkpoint, r *train.Report) *evalReport {
	e := &evalReport{
		Event: "eval", Model: f.Model, Dataset: f.Dataset, Checkpoint: c.Dir, Step: c.Step, Averaged: c.Averaged > 0,
		Images: r.Images, Loss: r.Loss, Accuracy: r.Accuracy(), Confusion: r.Confusion,
	}
	for _, err := range c.Broken {
		e.Broken = append(e.Broken, oneLine(err))
	}
	for i := range r.Confusion {
		one := r.Class(i)
		e.Classes = append(e.Classes, evalClass{set.ClassNames[i], one.Images, one.Precision, one.Recall, one.F1})
		e.MacroF1 += one.F1 / float64(len(r.Confusion))
	}
	return e
}

// maxMatrix is the number of classes up to which the confusion matrix is
// printed whole; of more classes only the commonest confusions are.
const maxMatrix = 12

// shownConfusions is how many confusions are listed in place of the matrix.
const shownConfusions = 20

// nameWidth is where long names of classes are cut.
const nameWidth = 20

// text is the report for people.
func (r *evalReport) text() string {
	b := &strings.Builder{}
	averaged := ""
	if r.Averaged {
		averaged = ", averaged weights"
	}
	for _, broken := range r.Broken {
		fmt.Fprintf(b, "passed over a broken checkpoint: %s\n", broken)
	}
	fmt.Fprintf(b, "%s on %s, step %d%s: %s\n", r.Model, r.Dataset, r.Step, averaged, r.Checkpoint)
	fmt.Fprintf(b, "accuracy %.2f %%, loss %.4f, %d images\n", 100*r.Accuracy, r.Loss, r.Images)
	if r.N > 0 {
		fmt.Fprintf(b, "computed on the workers: %s, %s, any %d of %d\n", r.Placement, r.Code, r.K, r.N)
	}
	if l := r.Latency; l != nil {
		b.WriteString(paragraph("  ", "%d requests of %d images: mean %.4g ms, half within %.4g ms, 99 %% within %.4g ms, 99.9 %% within %.4g ms",
			l.Requests, l.Images, l.MeanMS, l.P50MS, l.P99MS, l.P999MS))
	}
	b.WriteByte('\n')
	width := len("class")
	for _, c := range r.Classes {
		width = max(width, utf8.RuneCountInString(short(c.Class)))
	}
	fmt.Fprintf(b, "%-*s  %7s  %9s  %7s  %7s  %s\n", width, "class", "images", "precision", "recall", "f1", "most often taken for")
	for i, c := range r.Classes {
		line := fmt.Sprintf("%-*s  %7d  %9.4f  %7.4f  %7.4f  %s", width, short(c.Class), c.Images, c.Precision, c.Recall, c.F1, r.worst(i))
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(b, "%-*s  %7d  %9s  %7s  %7.4f\n\n", width, "mean", r.Images, "", "", r.MacroF1)
	if len(r.Classes) <= maxMatrix {
		r.matrix(b, width)
	} else {
		r.confusions(b)
	}
	return b.String()
}

// short cuts a name to a width that leaves room for the figures.
func short(name string) string {
	if runes := []rune(name); len(runes) > nameWidth {
		return string(runes[:nameWidth-1]) + "…"
	}
	return name
}

// worst names the class that a class is most often taken for, "" if for none.
func (r *evalReport) worst(class int) string {
	most := -1
	for other, n := range r.Confusion[class] {
		if other != class && n > 0 && (most < 0 || n > r.Confusion[class][most]) {
			most = other
		}
	}
	if most < 0 {
		return ""
	}
	return fmt.Sprintf("%s (%d)", short(r.Classes[most].Class), r.Confusion[class][most])
}

// matrix prints the confusion matrix: a row for each class, a column for what
// it is taken for, numbered from 0.
func (r *evalReport) matrix(b *strings.Builder, width int) {
	digits := len(fmt.Sprint(r.Images))
	fmt.Fprintf(b, "%-*s ", width+3, "taken for")
	for i := range r.Classes {
		fmt.Fprintf(b, " %*d", digits, i)
	}
	for i, row := range r.Confusion {
		fmt.Fprintf(b, "\n%2d %-*s ", i, width, short(r.Classes[i].Class))
		for _, n := range row {
			fmt.Fprintf(b, " %*d", digits, n)
		}
	}
	b.WriteString("\n")
}

// confusions lists the commonest confusions.
func (r *evalReport) confusions(b *strings.Builder) {
	type pair struct{ class, taken, n int }
	var pairs []pair
	for i, row := range r.Confusion {
		for j, n := range row {
			if i != j && n > 0 {
				pairs = append(pairs, pair{i, j, n})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.n, a.n) })
	fmt.Fprintf(b, "commonest confusions (the whole matrix: --json)\n")
	for _, p := range pairs[:min(len(pairs), shownConfusions)] {
		fmt.Fprintf(b, "%5d of %5d  %s taken for %s\n", p.n, r.Classes[p.class].Images, short(r.Classes[p.class].Class), short(r.Classes[p.taken].Class))
	}
}
