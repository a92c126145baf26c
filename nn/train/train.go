package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// Config is what a Trainer works with.
type Config struct {
	Model     nn.Module
	Network   *nn.Network // of Model
	Optimizer optim.Optimizer
	Train     *datasets.Loader
	Test      *datasets.Set

	Epochs     int // at least 1
	Steps      int // end after this step, if that is sooner; 0: no limit
	Accumulate int // batches a step; 0 means 1
	EvalBatch  int // images a batch of an evaluation; 0 means 256

	// Plateau, where given, hears of the test loss after every whole epoch. Its
	// state is part of a checkpoint.
	Plateau *optim.Plateau

	// EMA, where given, averages the trainable parameters after every step.
	// Evaluations and the model of a checkpoint have the averages in the place
	// of the weights; buffers, such as the running statistics of a batch norm,
	// are those of the moment. Placed layers have no average: New refuses them.
	EMA *optim.EMA

	Hooks []Hooks
	// Start is where to begin; the zero value is the beginning.
	Start Position
	// Now is the clock of the measured times; nil means time.Now.
	Now func() time.Time
}

// Position is a place between two steps.
type Position struct {
	Step  int `json:"step"`  // steps made
	Epoch int `json:"epoch"` // from 0
	Batch int `json:"batch"` // batches of the epoch that have been used
}

// Trainer runs the training loop.
type Trainer struct {
	config  Config
	pos     Position
	updates func(step int) (coded.Update, error) // of the placed layers; nil if there are none
	named   []nn.NamedParam
	params  []optim.Param
	average []optim.Param // what EMA averages
	epoch   sums          // since the start of the epoch
	total   sums
	written string // the folder of the last checkpoint
}

// sums adds up what reports are made of.
type sums struct {
	loss   float64 // weighted by images
	images int
	time   time.Duration
}

func (s *sums) add(loss float64, images int, d time.Duration) {
	s.loss += loss * float64(images)
	s.images += images
	s.time += d
}

// perSecond returns the images per second, 0 if there were none.
func (s sums) perSecond() float64 {
	if s.time <= 0 {
		return 0
	}
	return float64(s.images) / s.time.Seconds()
}

// Result sums a run up.
type Result struct {
	Steps        int
	TestLoss     float64
	TestAccuracy float64
	ImagesPerS   float64 // of the training steps
	Interrupted  bool    // the context was cancelled before the end
}

// New checks the configuration and returns a trainer.
func New(c Config) (*Trainer, error) {
	if c.Model == nil || c.Network == nil || c.Optimizer == nil || c.Train == nil || c.Test == nil {
		return nil, errors.New("train: Model, Network, Optimizer, Train and Test are required")
	}
	if c.Epochs < 1 || c.Steps < 0 || c.Accumulate < 0 || c.EvalBatch < 0 {
		return nil, fmt.Errorf("train: epochs %d, steps %d, accumulate %d, evaluation batch %d: want at least 1, 0, 0, 0",
			c.Epochs, c.Steps, c.Accumulate, c.EvalBatch)
	}
	c.Accumulate = max(c.Accumulate, 1)
	if c.EvalBatch == 0 {
		c.EvalBatch = 256
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Trainer{config: c, pos: c.Start}
	return t, t.bindParameters()
}

// StepsPerEpoch is the number of steps that batches of an epoch make.
func StepsPerEpoch(batches, accumulate int) int { return (batches + accumulate - 1) / accumulate }

// Position returns where the run stands: after the last whole step.
func (t *Trainer) Position() Position { return t.pos }

// Run trains until the last epoch or step, or until the context is cancelled,
// and evaluates. The step under way when the context is cancelled is finished; an
// evaluation is not, and is made by the run that goes on from there.
func (t *Trainer) Run(ctx context.Context) (Result, error) {
	// A step is never left half-way: its waits have deadlines of their own.
	whole := context.WithoutCancel(ctx)
	var last EpochInfo
	evaluated := false
	for t.pos.Epoch < t.config.Epochs && !t.stepsDone() {
		finished, err := t.runEpoch(ctx, whole)
		if err != nil || ctx.Err() != nil {
			return t.stopped(ctx, err)
		}
		if last, err = t.evaluateEpoch(ctx); err != nil {
			return t.stopped(ctx, err)
		}
		evaluated = true
		if finished {
			t.pos.Epoch, t.pos.Batch = t.pos.Epoch+1, 0
			if t.config.Plateau != nil {
				t.config.Plateau.Observe(last.TestLoss)
			}
		}
		if err := t.onEpoch(whole, last); err != nil {
			return Result{Steps: t.pos.Step}, err
		}
	}
	if !evaluated { // resumed at the very end
		var err error
		if last, err = t.evaluateEpoch(ctx); err != nil {
			return t.stopped(ctx, err)
		}
	}
	return Result{Steps: t.pos.Step, TestLoss: last.TestLoss, TestAccuracy: last.TestAccuracy, ImagesPerS: t.total.perSecond()}, nil
}

// stopped is the result of a run that ends before its end, by an error or since its
// context has ended.
func (t *Trainer) stopped(ctx context.Context, err error) (Result, error) {
	if ctx.Err() == nil || err != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return Result{Steps: t.pos.Step}, err
	}
	return Result{Steps: t.pos.Step, ImagesPerS: t.total.perSecond(), Interrupted: true}, nil
}

func (t *Trainer) stepsDone() bool { return t.config.Steps > 0 && t.pos.Step >= t.config.Steps }

// runEpoch makes the steps of the current epoch that are left. It tells
// whether it came to the epoch's end.
func (t *Trainer) runEpoch(ctx, whole context.Context) (bool, error) {
	t.epoch = sums{}
	group := stepGroup{}
	left := t.config.Train.Steps() - t.pos.Batch
	for batch, err := range t.config.Train.Epoch(whole, t.pos.Epoch, t.pos.Batch) {
		if err != nil {
			return false, fmt.Errorf("train: epoch %d: %w", t.pos.Epoch+1, err)
		}
		if group.batches == 0 {
			if ctx.Err() != nil || t.stepsDone() {
				return false, nil
			}
			if err := t.beforeStep(whole, t.pos.Step+1); err != nil {
				return false, err
			}
			group.start(t.config.Now(), min(t.config.Accumulate, left))
		}
		left--
		if err := t.backward(whole, &group, batch); err != nil {
			return false, err
		}
		if group.batches == group.want {
			if err := t.finishStep(whole, &group); err != nil {
				return false, err
			}
		}
	}
	return left == 0, nil
}

// stepGroup is the batches of one step.
type stepGroup struct {
	batches, want int
	images        int
	loss          float64 // weighted by images
	began         time.Time
}

func (g *stepGroup) start(now time.Time, want int) { *g = stepGroup{want: want, began: now} }

// backward runs one batch forward and backward; the gradients add up.
func (t *Trainer) backward(ctx context.Context, g *stepGroup, b *datasets.Batch) error {
	step := t.pos.Step + 1
	run := t.config.Network.Train
	if g.batches > 0 {
		run = t.config.Network.Accumulate
	}
	loss, _, err := run(ctx, step, b.X, b.Labels)
	if err != nil {
		return err // it names layer and step
	}
	n := len(b.Labels)
	g.batches++
	g.images += n
	g.loss += loss * float64(n)
	return nil
}

// finishStep updates the parameters, here and on the workers.
func (t *Trainer) finishStep(ctx context.Context, g *stepGroup) error {
	step := t.pos.Step + 1
	scale := 1 / float64(g.batches)
	if err := t.update(ctx, step, scale); err != nil {
		return fmt.Errorf("train: step %d: %w", step, err)
	}
	t.pos.Step = step
	t.pos.Batch += g.batches
	took := t.config.Now().Sub(g.began)
	loss := g.loss / float64(g.images)
	t.epoch.add(loss, g.images, took)
	t.total.add(loss, g.images, took)
	info := StepInfo{Step: step, Epoch: t.pos.Epoch, Loss: loss, Images: g.images, Time: took}
	g.batches = 0
	return t.onStep(ctx, info)
}

// evaluateEpoch evaluates the network on the test set.
func (t *Trainer) evaluateEpoch(ctx context.Context) (EpochInfo, error) {
	loss, accuracy, err := t.Evaluate(ctx)
	if err != nil {
		return EpochInfo{}, err
	}
	info := EpochInfo{Epoch: t.pos.Epoch, Step: t.pos.Step, TestLoss: loss, TestAccuracy: accuracy, ImagesPerS: t.epoch.perSecond()}
	if t.epoch.images > 0 {
		info.Loss = t.epoch.loss / float64(t.epoch.images)
	}
	return info, nil
}
