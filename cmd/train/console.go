package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// console prints the events for people: a progress bar on a terminal, plain
// lines elsewhere.
type console struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil when w is not a terminal
	total int                      // steps of the run
}

// plainEvery is how many steps pass between two lines where there is no bar.
const plainEvery = 100

// newConsole returns a console for a run of total steps.
func newConsole(w io.Writer, terminal bool, total int) *console {
	c := &console{w: w, total: total}
	if terminal {
		c.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetWidth(24),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("step"),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100_000_000),
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
		if e.Reason != "" {
			return c.line("step %d: %s %s (%s)", e.Step, e.Worker, e.State, e.Reason)
		}
		return c.line("step %d: %s %s", e.Step, e.Worker, e.State)
	case checkpointEvent:
		return c.line("step %d: checkpoint %s (%s)", e.Step, e.Path, e.Why)
	case doneEvent:
		return c.done(e)
	}
	return nil
}

func (c *console) start(e startEvent) error {
	if err := c.line("%s on %s: %d epochs, batch %d, %s, lr %g, seed %d",
		e.Config.Model, e.Config.Dataset, e.Config.Epochs, e.Config.Batch, e.Config.Optimizer, e.Config.LR, e.Config.Seed); err != nil {
		return err
	}
	for _, l := range e.Layers {
		where := l.Placement
		if l.Code != "" {
			where = fmt.Sprintf("%s, %s code", l.Placement, l.Code)
		}
		if err := c.line("  %-8s %s: %s", l.Layer, where, l.Reason); err != nil {
			return err
		}
	}
	if len(e.Workers) > 0 {
		return c.line("  workers: %s", strings.Join(e.Workers, ", "))
	}
	return nil
}

func (c *console) step(e stepEvent) error {
	if c.bar == nil {
		if e.Step%plainEvery != 0 {
			return nil
		}
		return c.line("step %d/%d: loss %.4f, %.1f ms%s", e.Step, c.total, e.Loss, e.StepMS, answered(e))
	}
	c.bar.Describe(fmt.Sprintf("loss %.4f%s", e.Loss, answered(e)))
	return c.bar.Set(e.Step)
}

// answered describes who was used: ", answered 1 2 4 6 of any 4".
func answered(e stepEvent) string {
	if e.Needed == 0 {
		return ""
	}
	return fmt.Sprintf(", answered %s of any %d", strings.Trim(fmt.Sprint(e.Answered), "[]"), e.Needed)
}

func (c *console) done(e doneEvent) error {
	if c.bar != nil {
		if err := c.bar.Finish(); err != nil {
			return err
		}
	}
	if err := c.line("test accuracy %.2f %% after %d steps in %.1f s (%.0f images/s)",
		100*e.TestAccuracy, e.Steps, e.Seconds, e.ImagesPerS); err != nil || e.BytesOut == 0 {
		return err
	}
	return c.line("sent %s, received %s, %.0f %% of the workers' work was not needed",
		bytesText(e.BytesOut), bytesText(e.BytesIn), 100*e.WastedWork)
}

// line prints a line of its own, above the bar if there is one.
func (c *console) line(format string, args ...any) error {
	if c.bar != nil {
		if err := c.bar.Clear(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.w, format+"\n", args...)
	return err
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

// isTerminal tells whether a file is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
