package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/optim"
)

// Exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// cli is the whole command line; one struct gives parsing, help and YAML keys.
type cli struct {
	Run     runCmd     `cmd:"" help:"Train a model. With no arguments: the MNIST convnet, its large layers coded over 6 worker processes on this machine, any 4 enough."`
	Eval    evalCmd    `cmd:"" help:"Evaluate a checkpoint: accuracy, loss, confusion matrix, every class."`
	Summary summaryCmd `cmd:"" help:"Show the model: layers, shapes, parameters, flops, placement."`
	Plan    planCmd    `cmd:"" help:"Say which placement and code suit the layers of a model on a cluster, and what that brings."`
	Worker  workerCmd  `cmd:"" help:"Serve a cluster until interrupted."`
	Bench   benchCmd   `cmd:"" help:"Measure this machine, coded layers over worker processes, and strategies against stragglers."`
	Chaos   chaosCmd   `cmd:"" help:"Break worker processes on this machine at random, and check every product."`
	Codes   codesCmd   `cmd:"" help:"Show the codes: thresholds, loads, condition numbers; explain one by a drawing."`
	Exact   exactCmd   `cmd:"" hidden:"" name:"exact-worker" help:"A worker process of the exact benchmark."`
	Keygen  keygenCmd  `cmd:"" help:"Make a new cluster key."`
	Version versionCmd `cmd:"" help:"Print version, commit and Go version."`
}

// terminal is what a command prints to.
type terminal struct{ stdout, stderr io.Writer }

func main() { os.Exit(Main()) }

// Main runs the command line and returns the exit status.
func Main() int {
	ctx, stop := interruptible(context.Background(), os.Stderr)
	defer stop()
	return execute(ctx, os.Args[1:], terminal{stdout: os.Stdout, stderr: os.Stderr})
}

// newParser returns the parser of the command line.
func newParser(c *cli, t terminal, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(options,
		kong.Name("train"),
		kong.Description("Train neural networks whose layers are coded over unreliable machines."),
		kong.Writers(t.stdout, t.stderr),
		kong.Configuration(yamlLoader(&c.Run.lists)),
		kong.Vars{
			"models":      strings.Join(models.Names(), ", "),
			"datasets":    strings.Join(datasets.Names(), ", "),
			"codes":       strings.Join(placementCodes(), ", "),
			"twosided":    strings.Join(shippedCodes(), ", "),
			"optimizers":  strings.Join(optim.Names(), ", "),
			"schedules":   strings.Join(optim.ScheduleNames(), ", "),
			"stragglers":  sim.ModelForms,
			"chaosfaults": strings.Join(chaosFaultNames(), ","),
		})...)
}

// quiet is where nothing is shown.
var quiet = terminal{io.Discard, io.Discard}

// parseQuietly parses a command line that another command has made up. With an error of
// the arguments it returns what it has understood.
func parseQuietly(args ...string) (*cli, error) {
	c := &cli{}
	parser, err := newParser(c, quiet)
	if err != nil {
		return nil, fmt.Errorf("command line: %w", err)
	}
	_, err = parser.Parse(args)
	return c, err
}

// execute parses the arguments, runs the command and turns its error into one
// line on standard error and an exit status.
func execute(ctx context.Context, args []string, t terminal) int {
	var c cli
	exited := -1
	parser, err := newParser(&c, t, kong.Exit(func(code int) { exited = code }))
	if err != nil {
		return report(t, fmt.Errorf("command line: %w", err))
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		return report(t, usageError{fmt.Errorf("%w; see %s --help", err, commandOf(err))})
	}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(t)
	if told := (interruptedError{}); isInterrupt(ctx, err) && !errors.As(err, &told) {
		err = errInterrupted // what was waiting says only that its context has ended
	}
	return report(t, err)
}

// commandOf names the command whose arguments are wrong.
func commandOf(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		return "train " + parse.Context.Selected().Name
	}
	return "train"
}

// usageError is a mistake in the arguments: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// report prints the error, if any, on one line and returns the exit status.
func report(t terminal, err error) int {
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(t.stderr, "train: %s\n", oneLine(err))
	var usage usageError
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// oneLine joins the lines of an error that holds several problems.
func oneLine(err error) string {
	return strings.Join(strings.Split(strings.TrimSpace(err.Error()), "\n"), "; ")
}
