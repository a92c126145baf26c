package dist

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// toyFollower knows a toy layer's shards and compares.
type toyFollower struct {
	shards []*toyShard
	fail   error // of Apply
}

func followToys(fail error) *Verification {
	return &Verification{Followers: map[string]coded.FollowerFactory{toyKind: func(l coded.Layer, _ *rand.Rand) (coded.Follower, error) {
		f := &toyFollower{fail: fail}
		for slot := range l.Code.N {
			s, err := newToyShard(l, slot)
			if err != nil {
				return nil, err
			}
			f.shards = append(f.shards, s.(*toyShard))
		}
		return f, nil
	}}}
}

func (f *toyFollower) Reset(states []coded.ShardState) error {
	for _, s := range states {
		if err := f.shards[s.Slot].SetState(s.State); err != nil {
			return err
		}
	}
	return nil
}

func (f *toyFollower) Accumulate(x, dy coded.Tensor) error {
	for _, s := range f.shards {
		if err := s.Accumulate(x, dy); err != nil {
			return err
		}
	}
	return nil
}

func (f *toyFollower) Apply(u coded.Update) error {
	for _, s := range f.shards {
		if err := s.Apply(u); err != nil {
			return err
		}
	}
	return f.fail
}

func (f *toyFollower) Check(p coded.Product, slot, chunk int, operands []coded.Tensor, result coded.Tensor) (residual float64, err error) {
	want, err := f.shards[slot].Multiply(p, operands[0], chunk)
	if err != nil {
		return 0, err
	}
	return toyResidual, alike("result", want, result)
}

// toyResidual is what a toyFollower says of all that it believes.
const toyResidual = 1e-6

func (f *toyFollower) CheckState(slot int, state []coded.Tensor) error {
	for i, want := range f.shards[slot].State() {
		if err := alike(fmt.Sprintf("tensor %d", i), want, state[i]); err != nil {
			return err
		}
	}
	return nil
}

func alike(what string, want, have coded.Tensor) error {
	for i, v := range want.Data {
		if d := have.Data[i] - v; d > 1e-4 || d < -1e-4 {
			return fmt.Errorf("%s is wrong", what)
		}
	}
	return nil
}

// liar makes a worker add to its results while lying says so.
func liar(lying *atomic.Bool) func(*WorkerConfig) {
	return func(cfg *WorkerConfig) {
		cfg.Tamper = func(_ ProductInfo, _ int, y coded.Tensor) bool {
			if lying.Load() {
				y.Data[0] += 100
			}
			return true
		}
	}
}

// lied trains until a worker is quarantined, and returns the step after that.
func (cl *cluster) lied(m *toyModel, step int, worker string) int {
	cl.t.Helper()
	for {
		cl.train(m, step, step) // which checks the products
		step++
		synctest.Wait() // else who lags is repaired, and what is wrong with its shard with it
		select {
		case e := <-cl.events:
			if e.Worker == worker && e.State == StateQuarantined {
				return step
			}
		default:
		}
		if step > 2000 {
			cl.t.Fatalf("%s was not found out", worker)
		}
	}
}

// A worker that lies is found out before its answer is used, loses its shards, and
// is left alone for a time that doubles. When it answers well for long, it is
// trusted as before.
func TestLiarIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verify := followToys(nil)
		verify.Pause, verify.MaxPause = time.Second, 4*time.Second
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: verify})
		var lying atomic.Bool
		lying.Store(true)
		cl.start(0, 1, liar(&lying))
		cl.start(1, 6)
		m := newFC1()
		cl.place(m)
		step := cl.lied(m, 1, "worker-1")
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			begin := time.Now()
			cl.train(m, step, step+3)
			step += 4
			cl.await("worker-1", StateRepaired)
			if took := time.Since(begin); took != pause {
				t.Errorf("back after %v, want %v", took, pause)
			}
			step = cl.lied(m, step, "worker-1")
		}
		if n := cl.c.Stats().Refused; n != 5 {
			t.Errorf("%d answers were refused, want 5", n)
		}
		lying.Store(false)
		cl.await("worker-1", StateRepaired)
		cl.kill("worker-5") // so that no round can do without worker-1
		cl.kill("worker-6")
		for ; cl.c.suspected("worker-1"); step++ {
			cl.train(m, step, step)
			if step > 5000 {
				t.Fatal("right answers do not make good for wrong ones")
			}
		}
	})
}

func (c *Coordinator) suspected(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suspects[name] != nil
}

// A shard in which a bit has flipped is found, and comes back right by repair.
func TestSoftErrorIsRepaired(t *testing.T) {
	for _, where := range []string{"product", "checkpoint"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(nil)})
				var shard atomic.Pointer[toyShard]
				cl.start(0, 1, func(cfg *WorkerConfig) {
					cfg.Handlers = map[string]coded.Factory{toyKind: func(l coded.Layer, slot int) (coded.Shard, error) {
						s, err := newToyShard(l, slot)
						shard.Store(s.(*toyShard))
						return s, err
					}}
				})
				cl.start(1, 6)
				m := newFC1()
				cl.place(m)
				cl.train(m, 1, 3)
				synctest.Wait() // nobody computes now
				shard.Load().f[0] += 1
				step := 4
				if where == "checkpoint" {
					if err := cl.fetched(m); err != nil {
						t.Error(err)
					}
					cl.await("worker-1", StateQuarantined)
				} else {
					step = cl.lied(m, step, "worker-1")
				}
				cl.await("worker-1", StateRepaired)
				cl.kill("worker-5")
				cl.kill("worker-6")
				cl.train(m, step, step+3) // needs worker-1
				if n := cl.c.Stats().Refused; n != 1 {
					t.Errorf("%d answers were refused, want 1", n)
				}
			})
		})
	}
}

// More liars than the code can do without are an error that names them.
func TestTooManyLiars(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(nil)})
	var lying atomic.Bool
	lying.Store(true)
	cl.start(0, 3, liar(&lying))
	cl.start(3, 6)
	m := newFC1()
	cl.place(m)
	_, err := cl.trainStep(m, 1)
	var few *coded.TooFewError
	if !errors.As(err, &few) || few.Have != 3 {
		t.Fatalf("error is %v, want a TooFewError with three", err)
	}
	for i, name := range []string{"worker-1", "worker-2", "worker-3"} {
		if want := name + " (quarantined: result is wrong)"; !slices.Contains(few.Missing, want) {
			t.Errorf("missing %d is %q, want %q", i, few.Missing[i], want)
		}
	}
}

// A spare worker takes the slot of a liar at once; and a liar that connects again
// does not get its shards back, nor anything else before its time is over.
func TestLiarMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(nil)})
		var lying atomic.Bool
		lying.Store(true)
		cl.start(0, 1, liar(&lying))
		cl.start(1, 6)
		m := newFC1()
		cl.place(m)
		cl.add("worker-7")
		step := cl.lied(m, 1, "worker-1")
		cl.train(m, step, step+1)
		cl.await("worker-7", StateRepaired)
		if names := cl.c.Workers(); names[0] != "worker-7" || names[6] != "worker-1" {
			t.Errorf("workers are %q, want worker-7 in the place of worker-1", names)
		}
		lying.Store(false)
		cl.settle("fc1")
		cl.cut("worker-1")
		cl.kill("worker-7")
		begin := time.Now()
		cl.connect(cl.workers["worker-1"])
		cl.train(m, step+2, step+3)
		cl.await("worker-1", StateRepaired)
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("repaired %v after it came back, want 5 s", took)
		}
	})
}

func TestVerificationConfig(t *testing.T) {
	verify := followToys(nil)
	verify.Pause, verify.MaxPause = -time.Second, -time.Minute
	_, err := NewCoordinator(CoordinatorConfig{Slots: 1, Verify: verify})
	for _, want := range []string{"pause after a wrong answer is -1s", "longest such pause is -1m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Without its follower a layer cannot be trained on.
func TestFollowerThatFails(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(errors.New("sums are off"))})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 1)
	if _, err := cl.c.Fetch(cl.ctx(), "fc1"); err == nil {
		t.Error("states that cannot be tested were taken")
	}
	if err := cl.c.Update(cl.ctx(), coded.Update{Step: 2, LR: 1, Scale: 1}); err == nil || !strings.Contains(err.Error(), "verification of layer fc1: sums are off") {
		t.Errorf("update gives %v, want why the follower has failed", err)
	}
}
