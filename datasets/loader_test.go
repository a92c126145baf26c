package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// numbered is a set of n 1x1x2 images in which image i has pixels i and i/256
// and the label i mod 7.
func numbered(t testing.TB, n int) *Set {
	t.Helper()
	c := Contents{Name: "numbered", Split: "train", Classes: 7, Shape: []int{1, 1, 2}}
	for i := range n {
		c.Pixels = append(c.Pixels, byte(i), byte(i>>8))
		c.Labels = append(c.Labels, i%7)
	}
	s, err := NewSet(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func loader(t testing.TB, s *Set, c LoaderConfig) *Loader {
	t.Helper()
	l, err := NewLoader(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// digest reads an epoch from a step on and returns a hash of each batch: all
// its fields.
func digest(t testing.TB, l *Loader, epoch, first int) []uint64 {
	t.Helper()
	var sums []uint64
	for b, err := range l.Epoch(t.Context(), epoch, first) {
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		fmt.Fprint(h, b.Epoch, b.Step, b.Shape, b.Labels, b.Index)
		for _, v := range b.X {
			binary.Write(h, binary.LittleEndian, math.Float32bits(v))
		}
		sums = append(sums, h.Sum64())
	}
	return sums
}

func TestEpochHasEverySampleOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "n")
		c := LoaderConfig{
			Batch:    rapid.IntRange(1, n).Draw(rt, "batch"),
			Shuffle:  rapid.Bool().Draw(rt, "shuffle"),
			Seed:     rapid.Uint64().Draw(rt, "seed"),
			Prefetch: rapid.IntRange(0, 5).Draw(rt, "prefetch"),
			Workers:  rapid.IntRange(0, 4).Draw(rt, "workers"),
		}
		s := numbered(t, n)
		l := loader(t, s, c)
		epoch := rapid.IntRange(0, 1000).Draw(rt, "epoch")
		var seen []int
		step := 0
		for b, err := range l.Epoch(t.Context(), epoch, 0) {
			if err != nil {
				rt.Fatal(err)
			}
			size := min(c.Batch, n-len(seen))
			if b.Epoch != epoch || b.Step != step || b.Shape != [4]int{size, 1, 1, 2} ||
				len(b.X) != 2*size || len(b.Labels) != size || len(b.Index) != size {
				rt.Fatalf("batch %d has step %d, shape %v and %d, %d, %d values, labels, indices; want %d images",
					step, b.Step, b.Shape, len(b.X), len(b.Labels), len(b.Index), size)
			}
			for i, j := range b.Index {
				if b.X[2*i] != float32(byte(j))/255 || int(b.Labels[i]) != j%7 {
					rt.Fatalf("image %d has value %v and label %d", j, b.X[2*i], b.Labels[i])
				}
			}
			seen = append(seen, b.Index...)
			step++
		}
		if step != l.Steps() {
			rt.Fatalf("%d batches, Steps promised %d", step, l.Steps())
		}
		if !c.Shuffle && !slices.IsSorted(seen) {
			rt.Fatalf("not shuffled, yet in order %v", seen)
		}
		slices.Sort(seen)
		for i := range n {
			if i >= len(seen) || seen[i] != i {
				rt.Fatalf("samples %v, want each of 0 to %d once", seen, n-1)
			}
		}
	})
}

// TestResumeSeesTheSameBatches: from any step of any epoch, by a loader that
// has read other things before, with other prefetching.
func TestResumeSeesTheSameBatches(t *testing.T) {
	s := numbered(t, 50)
	c := LoaderConfig{Batch: 8, Shuffle: true, Seed: 3}
	want := [][]uint64{digest(t, loader(t, s, c), 0, 0), digest(t, loader(t, s, c), 1, 0)}
	if slices.Equal(want[0], want[1]) {
		t.Fatal("two epochs have the same order")
	}
	for _, prefetch := range []int{1, 2, 3, 20} {
		for _, workers := range []int{1, 2, 5} {
			c.Prefetch, c.Workers = prefetch, workers
			l := loader(t, s, c)
			for first := range l.Steps() + 1 {
				for epoch := range want {
					if got := digest(t, l, epoch, first); !slices.Equal(got, want[epoch][first:]) {
						t.Fatalf("prefetch %d, %d workers: epoch %d from step %d has other batches", prefetch, workers, epoch, first)
					}
				}
			}
		}
	}
	c.Seed++
	if slices.Equal(digest(t, loader(t, s, c), 0, 0), want[0]) {
		t.Error("another seed has the same order")
	}
}

// TestEarlyEnd: leaving the loop by break, return or panic ends the goroutines
// and leaves the loader ready for the next epoch.
func TestEarlyEnd(t *testing.T) {
	s := numbered(t, 100)
	l := loader(t, s, LoaderConfig{Batch: 3, Shuffle: true, Prefetch: 4, Workers: 3})
	want := digest(t, l, 5, 0)
	for name, leave := range map[string]func(){
		"break": func() {
			for range l.Epoch(t.Context(), 0, 2) {
				break
			}
		},
		"panic": func() {
			defer func() { recover() }()
			for range l.Epoch(t.Context(), 0, 0) {
				panic("of the caller")
			}
		},
		"pull": func() {
			next, stop := iter.Pull2(l.Epoch(t.Context(), 0, 0))
			next()
			stop()
		},
	} {
		before := goleak.IgnoreCurrent()
		leave()
		if err := goleak.Find(before); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(digest(t, l, 5, 0), want) {
			t.Errorf("%s: the next epoch has other batches", name)
		}
	}
}

func TestEpochEndsWithTheContext(t *testing.T) {
	l := loader(t, numbered(t, 100), LoaderConfig{Batch: 10})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("the user left")
	steps := 0
	var last error
	for b, err := range l.Epoch(ctx, 4, 0) {
		if last != nil {
			t.Fatal("something was yielded after an error")
		}
		if last = err; err != nil {
			if b != nil {
				t.Error("a batch came with an error")
			}
			continue
		}
		if steps++; steps == 3 {
			cancel(reason)
		}
	}
	if steps != 3 || !errors.Is(last, reason) || last.Error() != "datasets: numbered/train: epoch 4: step 3: the user left" {
		t.Errorf("after %d steps: got %v, want the cause after 3", steps, last)
	}
}

func TestEpochErrors(t *testing.T) {
	l := loader(t, numbered(t, 10), LoaderConfig{Batch: 4})
	for _, c := range []struct{ epoch, first int }{{-1, 0}, {0, -1}, {0, 4}} {
		var got []error
		for _, err := range l.Epoch(t.Context(), c.epoch, c.first) {
			got = append(got, err)
		}
		want := fmt.Sprintf("datasets: numbered/train: no step %d in epoch %d, expected 0 to 3", c.first, c.epoch)
		if len(got) != 1 || got[0] == nil || got[0].Error() != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}
	for range l.Epoch(t.Context(), 0, 0) {
		for _, err := range l.Epoch(t.Context(), 1, 0) {
			if !errors.Is(err, ErrBusy) {
				t.Errorf("an epoch inside an epoch: got %v, want ErrBusy", err)
			}
		}
	}
}

func TestNewLoaderErrors(t *testing.T) {
	s := numbered(t, 10)
	for _, c := range []struct {
		c    LoaderConfig
		text string
	}{
		{LoaderConfig{}, "datasets: batch of 0 images, expected at least 1"},
		{LoaderConfig{Batch: 11}, "datasets: batch of 11 images is larger than numbered/train, which has 10"},
		{LoaderConfig{Batch: 1, Prefetch: -1}, "prefetch -1 with 1 workers"},
		{LoaderConfig{Batch: 1, Workers: -2}, "prefetch 2 with -2 workers"},
	} {
		if _, err := NewLoader(s, c.c); err == nil || !strings.HasPrefix(err.Error(), "datasets: ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: got %v, want %q", c.c, err, c.text)
		}
	}
	if l, err := NewLoader(s, LoaderConfig{Batch: 10}); err != nil || l.Set() != s || l.Steps() != 1 {
		t.Errorf("one batch with everything: %v, %v", l, err)
	}
}

// TestSteadyStateAllocatesNothing: an epoch of a thousand steps allocates what
// one of ten does.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	l := loader(t, numbered(t, 2000), LoaderConfig{Batch: 2, Shuffle: true, Prefetch: 3, Workers: 2, Augment: Augment{Flip: true}})
	allocs := func(first int) float64 {
		return testing.AllocsPerRun(5, func() {
			for _, err := range l.Epoch(t.Context(), 0, first) {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	short, long := allocs(990), allocs(0)
	// The runtime may allocate a few things of its own for goroutines that wait.
	if long > short+20 {
		t.Errorf("%v allocations in 1000 steps, %v in 10", long, short)
	}
}

// TestPrefetchWorksAhead: while the caller holds a batch, the others are made,
// and not more of them than there is room for.
func TestPrefetchWorksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loader(t, numbered(t, 100), LoaderConfig{Batch: 10, Prefetch: 3})
		for b, err := range l.Epoch(t.Context(), 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the worker has nothing left to do
			for i := range l.slots {
				s, want := &l.slots[i], 1
				if i == b.Step%len(l.slots) {
					want = 0 // in use
				} else if b.Step+3 >= l.Steps() {
					continue // nothing more to make
				}
				if got := len(s.ready); got != want {
					t.Errorf("step %d: slot %d has %d batches ready, want %d", b.Step, i, got, want)
				}
			}
		}
	})
}

func BenchmarkEpoch(b *testing.B) {
	for _, c := range []struct {
		shape   []int
		augment Augment
	}{{[]int{1, 28, 28}, Augment{}}, {[]int{3, 32, 32}, Augment{}}, {[]int{3, 32, 32}, Augment{Pad: 4, Flip: true}}} {
		train, _ := synthetic(b, Synthetic{Train: 12800, Shape: c.shape})
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("128x%s/augment=%v/workers=%d", times(c.shape), c.augment != Augment{}, workers), func(b *testing.B) {
				l := loader(b, train, LoaderConfig{Batch: 128, Shuffle: true, Workers: workers, Augment: c.augment})
				b.SetBytes(int64(4 * train.N * train.ImageSize()))
				b.ReportAllocs()
				for epoch := 0; b.Loop(); epoch++ {
					for _, err := range l.Epoch(b.Context(), epoch, 0) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.N*train.N)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}
