package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"

	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/dist/sim"
)

// planCheck compares a plan with the run that followed it.
type planCheck struct {
	Steps  int     `json:"steps"`
	StepMS float64 `json:"step_ms"` // median; mean under stragglers, as predicted
	P99MS  float64 `json:"p99_ms"`
	Error  float64 `json:"error"` // (predicted - measured) / measured
}

// checkWarmUp is the number of steps that do not count: buffers are made, and the
// workers have no update to do yet.
const checkWarmUp = 5

// check trains the model as planned, over processes of this machine.
func (p *planCmd) check(ctx context.Context, r *run, a *plan.Answer) (*planCheck, error) {
	folder, err := os.MkdirTemp("", "coda-plan-")
	if err != nil {
		return nil, err
	}
	times, err := p.train(ctx, r, a, folder)
	if err := errors.Join(err, os.RemoveAll(folder)); err != nil {
		return nil, err
	}
	if len(times) <= checkWarmUp {
		return nil, fmt.Errorf("%d steps, want more than %d", len(times), checkWarmUp)
	}
	times = times[checkWarmUp:]
	c := &planCheck{Steps: len(times)}
	for _, t := range times {
		c.StepMS += t / float64(len(times))
	}
	if p.Straggler == "none" {
		c.StepMS = median(times)
	}
	slices.Sort(times)
	c.P99MS = sim.Percentile(times, 0.99)
	c.Error = (a.StepMS - c.StepMS) / c.StepMS
	return c, nil
}

// train runs what train run does with the plan's placements, and returns the times
// of its steps in milliseconds.
func (p *planCmd) train(ctx context.Context, r *run, a *plan.Answer, folder string) ([]float64, error) {
	config, events := filepath.Join(folder, "plan.yaml"), filepath.Join(folder, "events.jsonl")
	if err := writePlan(config, r, a); err != nil {
		return nil, err
	}
	args := append(p.runArgs(r), "--config="+config, "--json="+events, "--out="+filepath.Join(folder, "run"))
	c, err := parseQuietly(args...)
	if err != nil {
		return nil, err
	}
	if err := c.Run.Run(ctx, quiet); isInterrupt(ctx, err) {
		return nil, errInterrupted // its folder goes, so that nothing can go on
	} else if err != nil {
		return nil, err
	}
	steps, err := readSteps(events)
	times := make([]float64, len(steps))
	for i, s := range steps {
		times[i] = s.StepMS
	}
	return times, err
}

// writePlan writes the placements of a plan, and the groups of the run, as train run
// reads them.
func writePlan(path string, r *run, a *plan.Answer) error {
	l := lists{Groups: r.Groups}
	for _, layer := range a.Layers {
		l.Placements = append(l.Placements, ruleOf(layer))
	}
	text, err := yaml.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// runArgs are the arguments of train run on the machines of the plan.
func (p *planCmd) runArgs(r *run) []string {
	args := []string{"run", "--model=" + r.Model, "--dataset=" + r.Dataset, "--batch=" + strconv.Itoa(r.Batch),
		"--threads=" + strconv.Itoa(r.Threads), "--steps=" + strconv.Itoa(p.Steps+checkWarmUp),
		"--seed=" + strconv.FormatUint(p.Seed, 10), "--workers=" + strconv.Itoa(p.Workers)}
	if r.DataDir != "" {
		args = append(args, "--data-dir="+r.DataDir)
	}
	if p.Pace > 0 {
		args = append(args, "--pace="+strconv.FormatFloat(p.Pace, 'g', -1, 64))
	}
	if p.Straggler != "none" {
		args = append(args, "--inject=slow:*@"+p.Straggler)
	}
	return args
}

// readSteps reads the steps of a run from its events.
func readSteps(path string) ([]stepEvent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	var steps []stepEvent
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e stepEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if e.Event == "step" {
			steps = append(steps, e)
		}
	}
	return steps, lines.Err()
}
