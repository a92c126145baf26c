package dist

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coda-ml/coda/coded"
)

// CoordinatorConfig says how a Coordinator works. Slots is required; the zero
// value of everything else has the meaning that its comment gives.
type CoordinatorConfig struct {
	// Slots is the number of slots of the codes, n. More workers are spares.
	Slots int
	// Run identifies the run: workers serve one run at a time. Empty: random.
	Run string
	// Resume is the number of a Keep of an earlier coordinator of this run: see
	// Coordinator.Resume. 0: none.
	Resume uint64
	// Name is how workers name the coordinator in errors. Empty: "coordinator".
	Name string

	// Losses is how many workers may be lost at a time while a step goes on at once with
	// those that are left. If it is given, slots are left out, and made again when
	// workers are lost, where slow workers would make steps longer by holding them, down
	// to as many as that takes. 0: all slots are kept.
	Losses int

	// Queue is how many tasks a worker has at a time, which hides the latency
	// of the network. 0: 2.
	Queue int
	// Strategies says, by layer, how chunks are handed out. A layer that is not in
	// it is Adaptive.
	Strategies map[string]Strategy
	// History is how many updates the operation log reaches back. A worker
	// that falls further behind is stale and must be repaired. 0: 8. They are fewer
	// where their operands would take more than 512 MB, but no fewer than Window and one.
	History int
	// Window is how many updates are sent ahead of those that a worker has
	// applied: it bounds the worker's memory. A worker under repair is sent more,
	// so that the log does not leave it behind. 0: 2; at most History.
	Window int

	// FirstDeadline is how long a round may take before anything is known of
	// their times. 0: 30 s.
	FirstDeadline time.Duration
	// MinDeadline and MaxDeadline are the limits of the later rounds' deadline,
	// which is eight times the 99th percentile of the last 256. 0: 10 s, 30 s: workers
	// whose machine is busy with something else for seconds are waited for.
	MinDeadline, MaxDeadline time.Duration
	// Wait is how long a round waits for workers when too few are left to end
	// it. 0: it fails at once; and it does in any case when workers have come back
	// without their shards, so that waiting for others is of no use.
	Wait time.Duration

	// Repairs is how many repairs run at a time. 0: 2.
	Repairs int
	// RepairDeadline is how long a repair may take before it is begun anew with
	// other donors, and how long Place and Fetch may take. 0: 30 s.
	RepairDeadline time.Duration

	// MaxCondition, if not 0, is the largest condition number of the set of results that
	// a chunk is decoded from, above which one more result is awaited, and another one,
	// while somebody can give it; for no longer than the round has taken until then. A
	// chunk that is decoded even so is counted in the Stats, and the first of a layer is
	// logged. It does not concern sets that Select or Replay choose, nor layers that are
	// Ignoring or Joint. At least 1.
	MaxCondition float64

	// Verify, if not nil, makes the coordinator test every answer before it is used.
	Verify *Verification

	// Select, if not nil, chooses the slots that each round uses. See Selection.
	Select Selection
	// Record, if not nil, is told every choice; Replay, if not nil, makes the
	// choices of a recorded run again, and Select is not asked.
	Record *Recorder
	Replay *Replay

	// OnEvent hears of every change of a worker, OnLow of every time that no
	// more than the needed fresh shards of a layer are left and no spare worker:
	// a checkpoint should be written at once. Both are called by one goroutine of
	// the coordinator's, in order, and may call its methods that are not the
	// Executor's, but for Close, which waits for them.
	OnEvent func(Event)
	OnLow   func(Low)
	// OnRound hears of every round that ended well, from Pending.Wait.
	OnRound func(RoundStats)
	// OnTask hears once of every task that was handed out, when it is over. It is
	// called under the coordinator's lock: it must be quick, and must not call
	// the coordinator.
	OnTask func(TaskStats)

	// Log hears of every change of a worker, and of connections that could not
	// be made. Its records have the attributes run and node, and step where there
	// is one. Nil: slog.Default.
	Log *slog.Logger
}

// Selection chooses, for a round, the slots that compute and decode each
// chunk: a slice with one set for every chunk, or with a single set for all of
// them. Nil leaves the choice to the scheduler. It is called again when a chosen
// slot is lost. It must be deterministic and must not call the coordinator.
type Selection func(RoundInfo) [][]int

// RoundInfo describes a round for a Selection.
type RoundInfo struct {
	Round   uint64 // counts the rounds of the run, from 1
	Layer   coded.Layer
	Code    *coded.Code
	Product coded.Product
	Step    int
	Fresh   []int // slots that can be asked, in order
}

// Low says that a layer can lose no more workers.
type Low struct {
	Layer string
	Fresh int // slots that hold the layer
	Step  int
}

func (c CoordinatorConfig) withDefaults() (CoordinatorConfig, error) {
	var problems []error
	if c.Slots < 1 || c.Slots > coded.MaxTasks {
		problems = append(problems, fmt.Errorf("slots is %d, want 1 to %d", c.Slots, coded.MaxTasks))
	}
	positive := func(name string, v *int, zero int) {
		if *v < 0 {
			problems = append(problems, fmt.Errorf("%s is %d, want at least 0", name, *v))
		} else if *v == 0 {
			*v = zero
		}
	}
	lasting := func(name string, v *time.Duration, zero time.Duration) {
		if *v < 0 {
			problems = append(problems, fmt.Errorf("%s is %v, want at least 0", name, *v))
		} else if *v == 0 {
			*v = zero
		}
	}
	positive("losses", &c.Losses, 0)
	positive("queue", &c.Queue, 2)
	positive("history", &c.History, 8)
	positive("window", &c.Window, min(2, c.History))
	positive("repairs", &c.Repairs, 2)
	lasting("first deadline", &c.FirstDeadline, 30*time.Second)
	lasting("least deadline", &c.MinDeadline, 10*time.Second)
	lasting("largest deadline", &c.MaxDeadline, max(30*time.Second, c.MinDeadline))
	lasting("wait", &c.Wait, 0)
	lasting("repair deadline", &c.RepairDeadline, 30*time.Second)
	if c.MaxCondition != 0 && !(c.MaxCondition >= 1) {
		problems = append(problems, fmt.Errorf("largest condition number is %g, want at least 1, or 0 for no limit", c.MaxCondition))
	}
	if c.Window > c.History {
		problems = append(problems, fmt.Errorf("window is %d, want at most the history, %d", c.Window, c.History))
	}
	if c.MinDeadline > c.MaxDeadline {
		problems = append(problems, fmt.Errorf("least deadline %v is above the largest, %v", c.MinDeadline, c.MaxDeadline))
	}
	if c.Verify = c.Verify.withDefaults(); c.Verify != nil {
		lasting("pause after a wrong answer", &c.Verify.Pause, 5*time.Second)
		lasting("longest such pause", &c.Verify.MaxPause, max(5*time.Minute, c.Verify.Pause))
	}
	if c.Run == "" {
		c.Run = rand.Text()
	}
	if c.Name == "" {
		c.Name = "coordinator"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = c.Log.With("component", "coordinator", "run", c.Run, "node", c.Name)
	if len(problems) > 0 {
		return c, fmt.Errorf("dist: coordinator: %w", errors.Join(problems...))
	}
	return c, nil
}
