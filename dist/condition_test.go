package dist

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// badlyCoded decodes from slots 0 to 3 with a condition number of 75, and of 2.5 with
// slot 4 as well.
var badlyCoded = coded.Spec{Name: "cauchy", N: 6, K: 4}

// conditioned is a cluster in which a full share takes workers 1 to 4 a second, and the
// others longer. It says what becomes of the rounds of a layer.
type conditioned struct {
	*cluster
	m    *toyModel
	last RoundStats
	book logBook
}

func newConditioned(t *testing.T, limit float64, chunks int, strategy Strategy, fifth, sixth float64) *conditioned {
	t.Helper()
	const batch, in, out = 16, 16, 32
	c := &conditioned{}
	c.cluster = newCluster(t, CoordinatorConfig{
		Slots: 6, MaxCondition: limit, Strategies: map[string]Strategy{"toy": strategy}, OnRound: func(s RoundStats) { c.last = s }, Log: c.book.logger(),
		FirstDeadline: time.Hour, MinDeadline: time.Hour, MaxDeadline: time.Hour,
	})
	times := []float64{1, 1, 1, 1, fifth, sixth}
	c.start(0, 6, func(w *WorkerConfig) {
		w.Pace = 2 * batch * in * out / 4 / 1e9
		w.Slow = func(i ProductInfo) float64 { return times[i.Slot] }
	})
	c.m = newToyModel(toyLayer("toy", badlyCoded, chunks, in, out), 1)
	c.m.batch = batch
	c.place(c.m)
	return c
}

// begin begins a round, which has to be released.
func (c *conditioned) begin() (r *round, x coded.Tensor) {
	c.t.Helper()
	x = c.m.operand(coded.Forward)
	p, err := c.c.Start(c.ctx(), coded.Round{Layer: "toy", Product: coded.Forward, Step: 1, Operand: x})
	if err != nil {
		c.t.Fatal(err)
	}
	return p.(*round), x
}

// round makes one and returns how long it took, in seconds to three digits.
func (c *conditioned) round(step int) float64 {
	c.t.Helper()
	if _, _, err := c.product(c.m, coded.Forward, step, false); err != nil { // it checks the product
		c.t.Fatal(err)
	}
	return math.Round(1000*c.last.Took.Seconds()) / 1000
}

func (c *conditioned) warnings() int {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	return strings.Count(c.book.text.String(), "condition number above the limit")
}

// Above the limit one more result is awaited, for at most as long again as the round
// has taken; then it is decoded from what there is, which is said.
func TestMaxCondition(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit        float64
		fifth, sixth float64 // times
		took         float64
		used         int
		awaited      int
		above        int
	}{
		{"no limit", 0, 1.5, 1.75, 1, 4, 0, 0},
		{"met at once", 100, 1.5, 1.75, 1, 4, 0, 0},
		{"one more", 10, 1.5, 1.75, 1.5, 5, 1, 0},
		{"two more", 2.2, 1.5, 1.75, 1.75, 6, 1, 0},
		{"all are not enough", 1.1, 1.5, 1.75, 1.75, 6, 1, 1},
		{"nobody in time", 10, 5, 5, 2, 4, 1, 1},
		{"one in time and not enough", 1.1, 1.5, 5, 2, 5, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newConditioned(t, c.limit, 1, InOrder, c.fifth, c.sixth)
				for step := 1; step <= 2; step++ {
					took := cl.round(step)
					if took != c.took || len(cl.last.Answered) != c.used || cl.last.Awaited != c.awaited || cl.last.Above != c.above {
						t.Errorf("%g s from slots %v, %d chunks awaited more, %d above; want %g s, %d slots, %d and %d",
							took, cl.last.Answered, cl.last.Awaited, cl.last.Above, c.took, c.used, c.awaited, c.above)
					}
					if over := cl.last.Condition() > c.limit; c.limit > 0 && over != (c.above > 0) {
						t.Errorf("condition number %g with the limit %g", cl.last.Condition(), c.limit)
					}
					if step == 1 {
						time.Sleep(10 * time.Second) // the slow ones have nothing to do any more
					}
				}
				cl.close()
				if s := cl.c.Stats(); s.Awaited != 2*c.awaited || s.Above != 2*c.above {
					t.Errorf("in all %d awaited more, %d above", s.Awaited, s.Above)
				}
				if n := cl.warnings(); n != c.above {
					t.Errorf("%d warnings of two rounds, want %d", n, c.above)
				}
			})
		})
	}
}

// When nobody is left who could give one more result, nobody is waited for; nor any
// longer when the last one who could goes.
func TestNobodyGivesOneMore(t *testing.T) {
	for _, gone := range []string{"before", "meanwhile"} {
		t.Run(gone, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newConditioned(t, 10, 1, InOrder, 5, 5)
				cl.kill("worker-6")
				want := 1.25
				if gone == "before" {
					cl.kill("worker-5")
					want = 1
				} else {
					time.AfterFunc(1250*time.Millisecond, func() { cl.workers["worker-5"].node.sever() })
				}
				if took := cl.round(1); took != want || cl.last.Above != 1 || cl.last.Awaited != 1 {
					t.Errorf("%g s, %d chunks above the limit, %d awaited more; want %g s and one", took, cl.last.Above, cl.last.Awaited, want)
				}
			})
		})
	}
}

// The time of a chunk that awaits more runs from when all the others can be decoded, also
// if that is by a result that is enough.
func TestLastChunkIsMetAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newConditioned(t, 30, 2, InOrder, 1e3, 1e3)
		r, x := cl.begin()
		defer r.Release()
		time.Sleep(600 * time.Millisecond)
		cl.late(r.id, 4, 1, x, 0) // so that chunk 1 is decoded well, and chunk 0 awaits slot 4
		if _, err := r.Wait(cl.ctx()); err != nil {
			t.Fatal(err)
		}
		if took := cl.last.Took.Round(time.Millisecond); took != 2*time.Second || cl.last.Awaited != 1 || cl.last.Above != 1 {
			t.Errorf("%v, %d chunks awaited more, %d above; want 2 s and one", took, cl.last.Awaited, cl.last.Above)
		}
	})
}

// Every chunk has a set of its own, and whoever has room gives the result that is
// wanted, whatever the schedule.
func TestMaxConditionOfChunks(t *testing.T) {
	for _, strategy := range []Strategy{Adaptive, InOrder, Speculative} {
		synctest.Test(t, func(t *testing.T) {
			cl := newConditioned(t, 10, 4, strategy, 1.5, 2)
			for step := 1; step <= 4; step++ {
				took := cl.round(step)
				if cl.last.Condition() > 10 || cl.last.Above != 0 || took > 2 {
					t.Errorf("strategy %d: %g s, condition number %g of sets %v", strategy, took, cl.last.Condition(), cl.last.Sets)
				}
				for chunk, set := range cl.last.Sets {
					if slices.Equal(set, []int{0, 1, 2, 3}) {
						t.Errorf("strategy %d: chunk %d is decoded from the first four", strategy, chunk)
					}
				}
			}
		})
	}
}

func TestMaxConditionConfig(t *testing.T) {
	for _, limit := range []float64{-1, 0.5, math.NaN()} {
		_, err := NewCoordinator(CoordinatorConfig{Slots: 1, MaxCondition: limit})
		if err == nil || !strings.Contains(err.Error(), "largest condition number is ") {
			t.Errorf("limit %g: error %v", limit, err)
		}
	}
}
