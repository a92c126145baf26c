package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
)

// ErrBusy is the kind of error for a second epoch on a loader whose first is
// not over.
var ErrBusy = errors.New("another epoch is under way")

// LoaderConfig says how a set is cut into batches.
type LoaderConfig struct {
	Batch    int    // images in a batch; the last one of an epoch may be smaller
	Shuffle  bool   // another order each epoch; otherwise the order of the set
	Seed     uint64 // of the shuffling and the augmentation
	Prefetch int    // batches made ahead of the one in use: 0 means 2
	Workers  int    // goroutines that make batches: 0 means 1
	Augment  Augment
}

func (c LoaderConfig) withDefaults() LoaderConfig {
	if c.Prefetch == 0 {
		c.Prefetch = 2
	}
	if c.Workers == 0 {
		c.Workers = 1
	}
	return c
}

// Batch is some images with their labels. It is borrowed from the loader:
// valid until the loop takes the next one.
type Batch struct {
	Epoch, Step int       // Step counts the batches of the epoch, from 0
	Shape       [4]int    // B, C, H, W; B is smaller in the last batch if it does not fit
	X           []float32 // normalised images, of Shape
	Labels      []int32   // B of them
	Index       []int     // which images of the set, B of them
}

// Loader cuts a set into batches, epoch after epoch. What a batch holds depends
// only on the set, Batch, Shuffle, Seed, Augment, the epoch and the step;
// neither on Prefetch and Workers nor on what was read before. So a run that is
// resumed at any epoch and step sees what it would have seen, to the bit.
//
// All memory is taken by NewLoader. A loader serves one epoch at a time.
type Loader struct {
	set   *Set
	c     LoaderConfig
	busy  atomic.Bool
	order []int
	slots []slot // ring: step s is in slot s mod len(slots)
}

// slot is the room for one batch.
type slot struct {
	batch  Batch
	x      []float32 // room for a full batch
	labels []int32
	err    error
	ready  chan struct{} // capacity 1: the batch is made
}

// NewLoader makes a loader. It fails if the settings are not possible, such as
// a batch larger than the set.
func NewLoader(s *Set, c LoaderConfig) (*Loader, error) {
	c = c.withDefaults()
	switch {
	case c.Batch < 1:
		return nil, fmt.Errorf("datasets: batch of %d images, expected at least 1", c.Batch)
	case c.Batch > s.N:
		return nil, fmt.Errorf("datasets: batch of %d images is larger than %s, which has %d", c.Batch, s, s.N)
	case c.Prefetch < 1 || c.Workers < 1:
		return nil, fmt.Errorf("datasets: prefetch %d with %d workers, expected positive numbers", c.Prefetch, c.Workers)
	}
	if err := c.Augment.check(s.Shape); err != nil {
		return nil, fmt.Errorf("datasets: %s: %w", s, err)
	}
	l := &Loader{set: s, c: c, order: make([]int, s.N)}
	// One batch is in use while the others are made; more than an epoch has
	// are of no use.
	l.slots = make([]slot, min(c.Prefetch+1, l.Steps()))
	for i := range l.slots {
		l.slots[i] = slot{
			x:      make([]float32, c.Batch*s.ImageSize()),
			labels: make([]int32, c.Batch),
			ready:  make(chan struct{}, 1),
		}
	}
	return l, nil
}

// Steps returns the number of batches of an epoch.
func (l *Loader) Steps() int { return (l.set.N + l.c.Batch - 1) / l.c.Batch }

// Set returns the set that the loader reads.
func (l *Loader) Set() *Set { return l.set }

// Epoch yields the batches of an epoch from firstStep on, 0 <= firstStep <=
// Steps. A batch is borrowed until the next one is taken. An error is the last
// thing yielded, without a batch: ErrBusy, the cause of the context's end, or
// a position that does not exist.
//
// The goroutines that prefetch live as long as the loop: when it ends, in
// whatever way, they have ended too.
func (l *Loader) Epoch(ctx context.Context, epoch, firstStep int) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if epoch < 0 || firstStep < 0 || firstStep > l.Steps() {
			yield(nil, fmt.Errorf("datasets: %s: no step %d in epoch %d, expected 0 to %d",
				l.set, firstStep, epoch, l.Steps()))
			return
		}
		if !l.busy.CompareAndSwap(false, true) {
			yield(nil, fmt.Errorf("datasets: %s: epoch %d: %w", l.set, epoch, ErrBusy))
			return
		}
		defer l.busy.Store(false)
		if err := l.run(ctx, epoch, firstStep, yield); err != nil {
			yield(nil, fmt.Errorf("datasets: %s: epoch %d: %w", l.set, epoch, err))
		}
	}
}

// run hands out the batches. The loop itself gives the orders: a slot is
// ordered again only after its batch was used, and batches are taken in the
// order of steps, so nothing depends on which worker is faster.
func (l *Loader) run(ctx context.Context, epoch, first int, yield func(*Batch, error) bool) error {
	l.arrange(epoch)
	orders := make(chan int, len(l.slots)) // steps to make; closed below
	var workers sync.WaitGroup
	defer l.drain()
	defer workers.Wait()
	defer close(orders)
	for range l.c.Workers {
		workers.Go(func() {
			for step := range orders {
				l.fill(epoch, step)
			}
		})
	}
	for step := first; step < min(first+len(l.slots), l.Steps()); step++ {
		orders <- step
	}
	for step := first; step < l.Steps(); step++ {
		s := &l.slots[step%len(l.slots)]
		select {
		case <-s.ready:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return fmt.Errorf("step %d: %w", step, context.Cause(ctx))
		}
		if s.err != nil {
			return fmt.Errorf("step %d: %w", step, s.err)
		}
		if !yield(&s.batch, nil) {
			return nil
		}
		if next := step + len(l.slots); next < l.Steps() {
			orders <- next // never blocks: at most one order a slot
		}
	}
	return nil
}

// arrange sets the order of the epoch.
func (l *Loader) arrange(epoch int) {
	if l.c.Shuffle {
		shuffle(l.order, l.c.Seed, epoch)
		return
	}
	for i := range l.order {
		l.order[i] = i
	}
}

// fill makes the batch of a step in its slot.
func (l *Loader) fill(epoch, step int) {
	s, set := &l.slots[step%len(l.slots)], l.set
	index := l.order[step*l.c.Batch : min((step+1)*l.c.Batch, set.N)]
	n := len(index)
	s.batch = Batch{
		Epoch: epoch, Step: step,
		Shape:  [4]int{n, set.Shape[0], set.Shape[1], set.Shape[2]},
		X:      s.x[:n*set.ImageSize()],
		Labels: s.labels[:n],
		Index:  index,
	}
	if l.c.Augment == (Augment{}) {
		s.err = set.BatchTo(s.batch.X, s.batch.Labels, index)
	} else {
		l.vary(&s.batch)
	}
	s.ready <- struct{}{} // never blocks: the slot was ordered once
}

// vary fills an augmented batch.
func (l *Loader) vary(b *Batch) {
	set, size := l.set, l.set.ImageSize()
	for i, j := range b.Index {
		v := l.c.Augment.draw(l.c.Seed, b.Epoch, b.Step*l.c.Batch+i, j, set.Shape)
		set.augment(b.X[i*size:][:size], j, l.c.Augment, v)
		b.Labels[i] = int32(set.labels[j])
	}
}

// drain forgets batches that were made and not taken. No worker is running.
func (l *Loader) drain() {
	for i := range l.slots {
		select {
		case <-l.slots[i].ready:
		default:
		}
	}
}
