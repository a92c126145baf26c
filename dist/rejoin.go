package dist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// rejoiner looks for the seeds and for members that vanished, for ever:
// memberlist forgets the dead, so that after a long partition the two halves
// would never meet again.
type rejoiner struct {
	list   *memberlist.Memberlist
	roster *roster
	seeds  []string
	self   string // gossip address of this node
	timing gossipTiming
	log    *slog.Logger
	rand   *rand.Rand

	tried  chan struct{} // closed after the first round
	joined chan struct{} // closed when a seed has answered

	// answered holds the addresses that answered since the last loss, which
	// epoch counts. They need not be asked again, even if nobody is known under
	// them: a node may be reached by other addresses than it advertises.
	epoch    int
	answered map[string]bool

	mu   sync.Mutex
	last error // of the last round
}

// lonelyRounds is after how many rounds without an answer, which take some seconds, that
// is told.
const lonelyRounds = 6

// maxAttempts bounds the addresses that are tried in one round, side by side.
const maxAttempts = 8

func newRejoiner(list *memberlist.Memberlist, r *roster, config MembershipConfig, timing gossipTiming, log *slog.Logger, self string) *rejoiner {
	random := config.Rand
	if random == nil {
		random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return &rejoiner{
		list: list, roster: r, seeds: slices.Clone(config.Seeds), self: self,
		timing: timing, log: log, rand: random,
		tried: make(chan struct{}), joined: make(chan struct{}),
		answered: make(map[string]bool),
	}
}

func (j *rejoiner) run(ctx context.Context) {
	changes, stop := j.roster.subscribe()
	defer stop()
	pause := j.timing.first
	for round := 0; ; round++ {
		missing := j.round(ctx)
		if round == 0 {
			close(j.tried)
		}
		if !missing {
			pause = j.timing.first
		}
		if round == lonelyRounds && j.lonely() && ctx.Err() == nil {
			j.log.Warn("nobody has answered yet, and is looked for on", "seeds", j.seeds, "err", j.failure())
		}
		if !j.sleep(ctx, changes, pause, missing) {
			return
		}
		pause = min(2*pause, j.timing.most)
	}
}

// sleep waits for half to one and a half pauses, so that nodes do not act in
// step. If nobody is missing it waits for a loss, looking up from time to time.
func (j *rejoiner) sleep(ctx context.Context, changes <-chan struct{}, pause time.Duration, missing bool) bool {
	if !missing {
		pause = j.timing.most
	}
	timer := time.NewTimer(pause/2 + time.Duration(j.rand.Int64N(int64(pause)+1)))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case _, open := <-changes:
			if !open {
				changes = nil
			} else if !missing && j.roster.lossCount() != j.epoch {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// round tries some of those that are missing; it reports whether any were.
func (j *rejoiner) round(ctx context.Context) bool {
	seeds, errs := j.resolveSeeds(ctx)
	targets := j.targets(seeds)
	tried := targets[:min(len(targets), maxAttempts)]
	results := make([]error, len(tried))
	var wg sync.WaitGroup
	for i, addr := range tried {
		wg.Go(func() {
			_, err := j.list.Join([]string{addr})
			if one := errors.Unwrap(err); one != nil {
				err = one // of a list of one, which takes several lines
			}
			results[i] = err
		})
	}
	wg.Wait()
	for i, addr := range tried {
		if results[i] == nil {
			j.answered[addr] = true
			if slices.Contains(seeds, addr) {
				j.markJoined()
			}
		}
	}
	for _, addr := range seeds {
		if addr == j.self || j.roster.has(addr) {
			j.markJoined() // it came to us first
		}
	}
	err := errors.Join(append(errs, results...)...)
	j.mu.Lock()
	j.last = err
	j.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		j.log.Debug("rejoin", "tried", tried, "err", err)
	}
	return err != nil || len(targets) > len(tried)
}

func (j *rejoiner) markJoined() {
	if !j.hasJoined() {
		close(j.joined)
	}
}

// hasJoined tells whether a seed has answered.
func (j *rejoiner) hasJoined() bool {
	select {
	case <-j.joined:
		return true
	default:
		return false
	}
}

// lonely tells whether nobody is known who should be.
func (j *rejoiner) lonely() bool {
	return len(j.seeds) > 0 && !j.hasJoined() && len(*j.roster.snapshot.Load()) < 2
}

// failure is why the last round has not reached everybody.
func (j *rejoiner) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// resolveSeeds gives the addresses behind the seeds; a name may stand for many.
func (j *rejoiner) resolveSeeds(ctx context.Context) (addrs []string, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, j.timing.most)
	defer cancel()
	for _, seed := range j.seeds {
		host, port, err := splitAddr(seed, DefaultPort)
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %w", err))
			continue
		}
		ips, err := resolve(ctx, host)
		if err != nil {
			errs = append(errs, fmt.Errorf("seed %w", err))
			continue
		}
		for _, ip := range ips {
			addrs = append(addrs, netip.AddrPortFrom(ip, port).String())
		}
	}
	return addrs, errs
}

// targets gives those that are missing, in random order: seeds and vanished
// members that are not known to be alive and have not answered lately.
func (j *rejoiner) targets(seeds []string) []string {
	if losses := j.roster.lossCount(); losses != j.epoch {
		j.epoch = losses
		clear(j.answered)
	}
	var targets []string
	for _, addr := range append(j.roster.lostAddrs(), seeds...) {
		if addr != j.self && !j.answered[addr] && !j.roster.has(addr) && !slices.Contains(targets, addr) {
			targets = append(targets, addr)
		}
	}
	j.rand.Shuffle(len(targets), func(a, b int) { targets[a], targets[b] = targets[b], targets[a] })
	return targets
}
