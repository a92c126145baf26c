package sim

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// Job is one product to be computed by a cluster. Work is measured in shards: a
// worker that nothing slows down does a shard in one unit of time.
type Job struct {
	Workers int
	Work    float64 // shards
	Held    float64 // what a worker holds, for Ideal; 0: one shard
}

// KOfN is the job of a cluster of n workers any k of which hold all: k shards of
// work, one held by each.
func KOfN(n, k int) Job { return Job{Workers: n, Work: float64(k), Held: 1} }

// Strategy is a way to divide a job.
type Strategy interface {
	// Name is that of the row in a table: "adaptive".
	Name() string
	Plan(Job) (*Plan, error)
}

// Plan is a job divided: chunks of work, and who does which when.
type Plan struct {
	Load     []float64       // by worker: work of one chunk, in shards; 0 takes no part
	Schedule func() Schedule // a new one, for a goroutine of its own
}

// even is a plan in which all chunks are of one size.
func even(workers int, load float64, schedule func() Schedule) *Plan {
	p := &Plan{Load: make([]float64, workers), Schedule: schedule}
	for w := range p.Load {
		p.Load[w] = load
	}
	return p
}

// oneEach is a plan in which every worker has a single chunk.
func oneEach(workers int, load float64, readiness func() schedule.Readiness) *Plan {
	return even(workers, load, func() Schedule {
		return schedule.NewInOrder(readiness(), workers, func(int) int { return 1 })
	})
}

func invalid(s Strategy, format string, args ...any) error {
	return fmt.Errorf("sim: strategy %s: %s", s.Name(), fmt.Sprintf(format, args...))
}

// maxCells bounds workers times chunks.
const maxCells = 1 << 28

func checkChunks(s Strategy, chunks, workers int) error {
	if chunks < 1 || chunks > maxCells/workers {
		return invalid(s, "%d chunks for %d workers, want 1 to %d", chunks, workers, maxCells/workers)
	}
	return nil
}

// Local does everything on the first worker.
type Local struct{}

func (Local) Name() string { return "local" }

// Plan implements Strategy.
func (Local) Plan(j Job) (*Plan, error) {
	p := oneEach(j.Workers, 0, func() schedule.Readiness { return schedule.NewTotal(1) })
	p.Load[0] = j.Work
	return p, nil
}

// Uncoded gives each of n workers an n-th and waits for all.
type Uncoded struct{}

func (Uncoded) Name() string { return "uncoded" }

// Plan implements Strategy.
func (Uncoded) Plan(j Job) (*Plan, error) {
	return oneEach(j.Workers, j.Work/float64(j.Workers), func() schedule.Readiness { return schedule.NewCount(1, j.Workers) }), nil
}

// Ignore is Uncoded without the last Drop workers: what they had to do is lost,
// and so its times are not those of a whole product.
type Ignore struct{ Drop int }

func (Ignore) Name() string { return "ignore" }

// Plan implements Strategy.
func (s Ignore) Plan(j Job) (*Plan, error) {
	if s.Drop < 0 || s.Drop >= j.Workers {
		return nil, invalid(s, "%d of %d workers are ignored, want 0 to %d", s.Drop, j.Workers, j.Workers-1)
	}
	return oneEach(j.Workers, j.Work/float64(j.Workers), func() schedule.Readiness { return schedule.NewCount(1, j.Workers-s.Drop) }), nil
}

// Replicated cuts the work into n/Copies parts, each done by Copies workers.
type Replicated struct{ Copies int }

func (Replicated) Name() string { return "replicated" }

// Plan implements Strategy.
func (s Replicated) Plan(j Job) (*Plan, error) {
	if s.Copies < 1 || j.Workers%s.Copies != 0 {
		return nil, invalid(s, "%d copies for %d workers, want a divisor of their number", s.Copies, j.Workers)
	}
	parts := j.Workers / s.Copies
	return oneEach(j.Workers, j.Work/float64(parts), func() schedule.Readiness { return schedule.NewCopies(parts) }), nil
}

// Speculative is Uncoded whose late parts are given to idle workers as well, fewest
// copies first (backup tasks: J. Dean, S. Ghemawat, MapReduce, OSDI 2004). Once the
// fraction Quantile of all parts is done, a part is late that every worker which was
// given it has been at for Multiple times the median of those that are done, as in
// Spark. The zero value is the rule of package dist. Workers must have all data.
type Speculative struct{ Quantile, Multiple float64 }

func (Speculative) Name() string { return "speculative" }

// Plan implements Strategy.
func (s Speculative) Plan(j Job) (*Plan, error) {
	rule := schedule.Speculation(s)
	if s == (Speculative{}) {
		rule = schedule.DefaultSpeculation
	}
	if !rule.Valid() {
		return nil, invalid(s, "a part is late at %v times the median of a fraction %v of them, want 1 or more, and 0 to 1", s.Multiple, s.Quantile)
	}
	if err := checkChunks(s, j.Workers, j.Workers); err != nil {
		return nil, err
	}
	return even(j.Workers, j.Work/float64(j.Workers), func() Schedule {
		return schedule.NewSpeculative(counting(j.Workers, 1), j.Workers, j.Workers, rule)
	}), nil
}

// pulling is a plan of chunks that are handed out by pull.
func pulling(workers, chunks int, load float64, readiness func() schedule.Covered) *Plan {
	return even(workers, load, func() Schedule { return schedule.NewPulled(readiness, workers, chunks, nil) })
}

// counting makes chunks ready that need so many results.
func counting(chunks, need int) func() schedule.Covered {
	return func() schedule.Covered { return schedule.NewCount(chunks, need) }
}

// Stealing hands uncoded chunks out to whoever is free. Workers must have all data.
type Stealing struct{ Chunks int }

func (Stealing) Name() string { return "stealing" }

// Plan implements Strategy.
func (s Stealing) Plan(j Job) (*Plan, error) {
	if err := checkChunks(s, s.Chunks, j.Workers); err != nil {
		return nil, err
	}
	return pulling(j.Workers, s.Chunks, j.Work/float64(s.Chunks), counting(s.Chunks, 1)), nil
}

// MDS gives each worker a K-th of the work, coded, and waits for any K.
type MDS struct{ K int }

func (MDS) Name() string { return "mds" }

// Plan implements Strategy.
func (s MDS) Plan(j Job) (*Plan, error) {
	if err := checkK(s, s.K, j.Workers); err != nil {
		return nil, err
	}
	return oneEach(j.Workers, j.Work/float64(s.K), func() schedule.Readiness { return schedule.NewCount(1, s.K) }), nil
}

func checkK(s Strategy, k, workers int) error {
	if k < 1 || k > workers {
		return invalid(s, "k is %d, want 1 to the number of workers, %d", k, workers)
	}
	return nil
}

// Adaptive cuts an MDS code into Chunks, each of which any K workers decode, and
// hands them out by pull, as package dist does.
type Adaptive struct{ K, Chunks int }

func (Adaptive) Name() string { return "adaptive" }

// Plan implements Strategy.
func (s Adaptive) Plan(j Job) (*Plan, error) {
	if err := checkK(s, s.K, j.Workers); err != nil {
		return nil, err
	}
	if err := checkChunks(s, s.Chunks, j.Workers); err != nil {
		return nil, err
	}
	load := j.Work / float64(s.K) / float64(s.Chunks)
	return pulling(j.Workers, s.Chunks, load, counting(s.Chunks, s.K)), nil
}

// Partial cuts each worker's K-th into Chunks, done in order, any K*Chunks of
// which decode: a universally decodable code (A. Ramamoorthy, L. Tang, P. Vontobel,
// ISIT 2019).
type Partial struct{ K, Chunks int }

func (Partial) Name() string { return "partial" }

// Plan implements Strategy.
func (s Partial) Plan(j Job) (*Plan, error) {
	if err := checkK(s, s.K, j.Workers); err != nil {
		return nil, err
	}
	if err := checkChunks(s, s.Chunks, j.Workers); err != nil {
		return nil, err
	}
	return even(j.Workers, j.Work/float64(s.K)/float64(s.Chunks), func() Schedule {
		return schedule.NewInOrder(schedule.NewTotal(s.K*s.Chunks), j.Workers, func(int) int { return s.Chunks })
	}), nil
}

// Rateless cuts the work into Symbols, gives each worker coded ones, Storage times
// as many as there are in all, and waits for any (1+Overhead) Symbols: an LT code
// (A. Mallick et al., SIGMETRICS 2020).
type Rateless struct {
	Overhead, Storage float64
	Symbols           int
}

func (Rateless) Name() string { return "rateless" }

// Plan implements Strategy.
func (s Rateless) Plan(j Job) (*Plan, error) {
	if !(s.Overhead >= 0 && s.Storage >= 1+s.Overhead && s.Storage <= 1e3) {
		return nil, invalid(s, "overhead %v, storage %v, want an overhead from 0 and a storage from 1 more than it to 1000", s.Overhead, s.Storage)
	}
	if s.Symbols < 1 || float64(s.Symbols)*s.Storage > maxCells {
		return nil, invalid(s, "%d symbols stored %v-fold, want at least 1 and at most %d stored", s.Symbols, s.Storage, maxCells)
	}
	each := int(math.Ceil(s.Storage * float64(s.Symbols) / float64(j.Workers)))
	need := int(math.Ceil((1 + s.Overhead) * float64(s.Symbols)))
	return even(j.Workers, j.Work/float64(s.Symbols), func() Schedule {
		return schedule.NewInOrder(schedule.NewTotal(need), j.Workers, func(int) int { return each })
	}), nil
}

// Hierarchical cuts each worker's part into Layers, done in order, each of which is
// coded by itself, the first ones thinly and the last ones heavily (N. Ferdinand, S.
// Draper, Hierarchical coded computation, ISIT 2018). K sets the mean of what they need.
type Hierarchical struct{ K, Layers int }

func (Hierarchical) Name() string { return "hierarchical" }

// Plan implements Strategy.
func (s Hierarchical) Plan(j Job) (*Plan, error) {
	code, err := coded.New(coded.Spec{Name: "hierarchical", N: j.Workers, K: s.K, Groups: s.Layers})
	if err != nil {
		return nil, invalid(s, "%v", err)
	}
	return Coded{Code: code}.Plan(j)
}

// Coded runs any code: a task a worker, done when the results that are there
// decode. With more than one chunk, each is coded by itself and handed out by
// pull; with one, the results of a task that has several come one after the
// other, and count.
type Coded struct {
	Code   *coded.Code
	Chunks int // 0: 1
}

func (Coded) Name() string { return "coded" }

// Plan implements Strategy.
func (s Coded) Plan(j Job) (*Plan, error) {
	chunks := max(1, s.Chunks)
	if s.Code.N() > j.Workers {
		return nil, invalid(s, "%v has %d tasks, there are %d workers", s.Code, s.Code.N(), j.Workers)
	}
	if s.Code.Approximate() {
		return nil, invalid(s, "%v never decodes exactly", s.Code)
	}
	if err := checkChunks(s, chunks, j.Workers); err != nil {
		return nil, err
	}
	parts := make([]int, j.Workers) // chunks of a worker, of which it does one after the other
	p := &Plan{Load: make([]float64, j.Workers)}
	several := false
	for t := range s.Code.N() {
		parts[t] = chunks
		if chunks == 1 {
			parts[t] = s.Code.Results(t)
			several = several || parts[t] > 1
		}
		p.Load[t] = s.Code.TaskLoads(t).Compute * j.Work / float64(parts[t])
	}
	inTurn := func(w int) int { return parts[w] }
	switch {
	case several:
		results, err := s.results()
		if err != nil {
			return nil, err
		}
		p.Schedule = func() Schedule { return schedule.NewInOrder(results(), j.Workers, inTurn) }
	case chunks == 1:
		p.Schedule = func() Schedule { return schedule.NewInOrder(schedule.NewCovered(s.Code, 1), j.Workers, inTurn) }
	default:
		p.Schedule = func() Schedule {
			return schedule.NewPulled(func() schedule.Covered { return schedule.NewCovered(s.Code, chunks) }, s.Code.N(), chunks, nil)
		}
	}
	return p, nil
}

// results gives the readiness by single results.
func (s Coded) results() (func() schedule.Readiness, error) {
	single, err := s.Code.Chunks()
	if err != nil {
		return nil, invalid(s, "%v", err)
	}
	return func() schedule.Readiness { return schedule.NewTogether(s.Code, single) }, nil
}
