package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/coda-ml/coda/dist"
)

// console prints the events for people: a progress bar on a terminal, plain
// lines elsewhere.
type console struct {
	w       io.Writer
	bar     *progressbar.ProgressBar // nil where there is no terminal
	total   int                      // steps of the run
	present map[string]bool          // workers that the start has listed
	unit    string                   // "shards " where a worker may hold several
}

// minBarWidth is the width of a terminal from which the bar fits on one line,
// and an echoed ^C behind it.
const minBarWidth = 80

// newConsole returns a console for a run of total steps on a terminal of some
// columns; 0 is for what is no terminal.
func newConsole(w io.Writer, columns, total int) *console {
	c := &console{w: w, total: total, present: map[string]bool{}}
	if columns >= minBarWidth {
		c.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetWidth(14),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond),
		)
	}
	return c
}

func (c *console) emit(event any) error {
	switch e := event.(type) {
	case startEvent:
		return c.start(e)
	case stepEvent:
		return c.step(e)
	case epochEvent:
		return c.line("epoch %d: loss %.4f, test loss %.4f, test accuracy %.2f %%, %.0f images/s",
			e.Epoch, e.Loss, e.TestLoss, 100*e.TestAccuracy, e.ImagesPerS)
	case workerEvent:
		return c.worker(e)
	case checkpointEvent:
		return c.line("step %d: checkpoint %s (%s)", e.Step, e.Path, e.Why)
	case driftEvent:
		then := ""
		if e.Corrected {
			then = ", encoded anew"
		}
		return c.line("step %d: layer %s: coded copies differ by %.1e of the largest weight%s", e.Step, e.Layer, e.Weights, then)
	case restoredEvent:
		return c.line("step %d: went back to checkpoint %s (%s)", e.Step, e.Path, e.Why)
	case doneEvent:
		return c.done(e)
	case errorEvent: // standard error tells it
		return c.clear()
	}
	return nil
}

func (c *console) start(e startEvent) error {
	f := e.Config
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s on %s: %d steps of %d images, %s, lr %g, seed %d\n",
		f.Model, f.Dataset, e.Steps, f.Batch*f.Accumulate, f.Optimizer, f.LR, f.Seed)
	width := widest("workers ", e.Layers, func(l layerInfo) string { return l.Layer })
	row := func(name, format string, args ...any) {
		fmt.Fprintf(text, "  %-*s "+format+"\n", append([]any{width, name}, args...)...)
	}
	for _, l := range e.Layers {
		where := l.Placement
		if l.Code != "" {
			where = fmt.Sprintf("%s, %s code", l.Placement, l.Code)
		}
		row(l.Layer, "%s: %s", where, l.Reason)
	}
	if e.Plan != nil {
		row("planned", "%s", e.Plan)
	}
	if e.Trained < e.Params {
		row("trained", "%d of %d parameters", e.Trained, e.Params)
	}
	if len(e.Workers) > 0 {
		row("workers", "%s", c.presentAtStart(e))
	}
	for _, b := range e.Broken {
		fmt.Fprintf(text, "  passed over a broken checkpoint: %s\n", b)
	}
	if len(e.Unused) > 0 {
		row("unused", "%s: no layer is placed", strings.Join(e.Unused, ", "))
	}
	if e.Resumed != "" {
		kept := ""
		if len(e.Workers) > 0 {
			kept = fmt.Sprintf(", for which the workers had kept %d shards", e.Kept)
		}
		row("resumed", "%s%s", e.Resumed, kept)
	}
	row("files", "%s", f.Out)
	_, err := io.WriteString(c.w, text.String())
	return err
}

// presentAtStart notes the workers that are there, and lists them without their further
// seats, which are called worker-1/2 and so on.
func (c *console) presentAtStart(e startEvent) string {
	var names []string
	for _, name := range e.Workers {
		c.present[name] = true
		switch {
		case name == "":
			names = append(names, "(none yet)")
		case strings.Contains(name, "/"):
			c.unit = "shards "
		default:
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func (c *console) worker(e workerEvent) error {
	if e.State == dist.StateJoined && c.present[e.Worker] {
		delete(c.present, e.Worker) // who comes back is news
		return nil
	}
	if e.Reason != "" {
		return c.line("step %d: %s %s (%s)", e.Step, e.Worker, e.State, e.Reason)
	}
	return c.line("step %d: %s %s", e.Step, e.Worker, e.State)
}

func (c *console) step(e stepEvent) error {
	if c.bar == nil {
		if e.Step%c.every() != 0 {
			return nil
		}
		used := ""
		if e.Needed > 0 {
			used = fmt.Sprintf(", %s answered (%d %sneeded)", strings.Trim(fmt.Sprint(e.Answered), "[]"), e.Needed, c.unit)
		}
		return c.line("step %d/%d: loss %.4f, %.1f ms%s", e.Step, c.total, e.Loss, e.StepMS, used)
	}
	used := ""
	if e.Needed > 0 {
		used = fmt.Sprintf(", %d answered", len(e.Answered))
	}
	c.bar.Describe(fmt.Sprintf("step %d/%d, loss %.4f%s", e.Step, c.total, e.Loss, used))
	return c.bar.Set(e.Step)
}

// every is how many steps pass between two lines where there is no bar: 100,
// or fewer in a short run.
func (c *console) every() int { return min(100, max(1, c.total/10)) }

func (c *console) done(e doneEvent) error {
	if c.bar != nil {
		if err := c.bar.Finish(); err != nil {
			return err
		}
	}
	rate := ""
	if e.ImagesPerS > 0 { // there were steps to make
		rate = fmt.Sprintf(" (%.0f images/s)", e.ImagesPerS)
	}
	if err := c.line("test accuracy %.2f %% after %d steps in %.1f s%s", 100*e.TestAccuracy, e.Steps, e.Seconds, rate); err != nil || e.BytesOut == 0 {
		return err
	}
	return c.line("sent %s, received %s, %.0f %% of the workers' work was not needed",
		bytesText(e.BytesOut), bytesText(e.BytesIn), 100*e.WastedWork)
}

// line prints a line of its own, above the bar if there is one.
func (c *console) line(format string, args ...any) error {
	if err := c.clear(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.w, format+"\n", args...)
	return err
}

// clear takes the bar away until the next step.
func (c *console) clear() error {
	if c.bar == nil {
		return nil
	}
	return c.bar.Clear()
}

// bytesText prints a number of bytes for people: "1.5 MB".
func bytesText(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1000, 0
	for v >= 1000 && unit < 3 {
		v, unit = v/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", v, "kMGT"[unit])
}

// terminalWidth returns the columns of a terminal, 0 for anything else.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
