package dist

import (
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Verification makes a coordinator test what workers answer (Freivalds' test, see
// coded.Follower) before it is used. A worker that answers wrongly is quarantined.
type Verification struct {
	// Followers make the followers of layers, by coded.Layer.Kind. What is of
	// another kind is not tested.
	Followers map[string]coded.FollowerFactory
	// Rand draws what the workers must not guess. Nil: seeded by the system.
	Rand *rand.Rand
	// Pause is how long a worker is left alone after its first wrong answer; each
	// further one doubles it, up to MaxPause. 0: 5 s, 5 minutes.
	Pause, MaxPause time.Duration
}

// withDefaults returns a copy with a source of its own.
func (v *Verification) withDefaults() *Verification {
	if v == nil {
		return nil
	}
	d := *v
	if d.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		d.Rand = rand.New(rand.NewChaCha8(seed))
	}
	return &d
}

// verifier tests the answers of a layer's slots. Its follower goes on to a version
// when the first answer of that version is to be tested: workers apply an update
// only when no round before it wants results any more, so that nothing of an
// earlier version can come then.
type verifier struct {
	mu       sync.RWMutex // taken before Coordinator.mu, never under it
	follower coded.Follower
	version  int
	broken   error // the follower has failed: it tells nothing any more

	// These are guarded by Coordinator.mu.
	xs    []pendingX     // kept operands of the step under way
	pairs []operandPair  // of the step under way
	queue []followUpdate // not applied yet
}

type operandPair struct{ x, dy *counted }

type followUpdate struct {
	pairs   []operandPair
	update  coded.Update
	version int // after it
}

// verifies tells whether the answers of a layer are tested.
func (c *Coordinator) verifies(l coded.Layer) bool {
	return c.cfg.Verify != nil && c.cfg.Verify.Followers[l.Kind] != nil
}

// newVerifier makes the verifier of a layer from the states of its slots, nil if
// it is not to be tested.
func (c *Coordinator) newVerifier(l coded.Layer, states []coded.ShardState) (*verifier, error) {
	if !c.verifies(l) {
		return nil, nil
	}
	follower, err := c.cfg.Verify.Followers[l.Kind](l, c.cfg.Verify.Rand)
	if err != nil {
		return nil, err
	}
	if err := follower.Reset(states); err != nil {
		return nil, err
	}
	return &verifier{follower: follower}, nil
}

// keep notes an operand that shards hold for the next update. Those of another
// step are of a step that has failed.
func (v *verifier) keep(req coded.Round, operand *counted) {
	if v == nil || !req.Keep {
		return
	}
	if len(v.xs) > 0 && v.xs[0].step != req.Step {
		v.drop()
	}
	if req.Product == coded.Forward {
		v.xs = append(v.xs, pendingX{operand.retain(), req.Step})
		return
	}
	if n := len(v.pairs); n < len(v.xs) {
		v.pairs = append(v.pairs, operandPair{v.xs[n].operand, operand.retain()})
	}
}

// update notes an update of the operands kept for it.
func (v *verifier) update(u coded.Update, version int) {
	if v == nil {
		return
	}
	if len(v.xs) > 0 && (v.xs[0].step != u.Step || len(v.pairs) < len(v.xs)) {
		v.drop()
	}
	v.queue = append(v.queue, followUpdate{v.pairs, u, version})
	v.xs, v.pairs = nil, nil
}

// drop releases the operands of the step under way.
func (v *verifier) drop() {
	for _, x := range v.xs {
		x.operand.release()
	}
	for _, p := range v.pairs {
		p.dy.release()
	}
	v.xs, v.pairs = nil, nil
}

// close releases everything.
func (v *verifier) close() {
	if v == nil {
		return
	}
	v.drop()
	for _, u := range v.queue {
		u.release()
	}
	v.queue = nil
}

func (u followUpdate) release() {
	for _, p := range u.pairs {
		p.x.release()
		p.dy.release()
	}
}

// errPassed says that an answer came when the follower had gone on, so that
// nothing can be said of it.
var errPassed = errors.New("the answer is of an earlier version than those that are tested")

// at calls f when the follower is at a version.
func (c *Coordinator) at(v *verifier, version int, f func(coded.Follower) error) error {
	v.mu.RLock()
	if v.version < version && v.broken == nil {
		v.mu.RUnlock()
		c.advance(v, version)
		v.mu.RLock()
	}
	defer v.mu.RUnlock()
	if v.version != version || v.broken != nil {
		return errPassed
	}
	return f(v.follower)
}

// advance lets the follower apply the updates up to a version.
func (c *Coordinator) advance(v *verifier, version int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.version < version && v.broken == nil {
		c.mu.Lock()
		if len(v.queue) == 0 {
			c.mu.Unlock()
			return
		}
		next := v.queue[0]
		v.queue = v.queue[1:]
		c.mu.Unlock()
		v.broken = v.apply(next)
		v.version = next.version
	}
}

func (v *verifier) apply(u followUpdate) error {
	defer u.release()
	for _, p := range u.pairs {
		if err := v.follower.Accumulate(p.x.tensor, p.dy.tensor); err != nil {
			return err
		}
	}
	return v.follower.Apply(u.update)
}

// sound tells why the answers of a layer cannot be tested any more, if so.
func (v *verifier) sound() error {
	if v == nil {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.broken
}

// judged handles a message whose answer has been found wrong, or cannot be judged
// any more: it is not used.
func (c *Coordinator) judged(at *line, m *Message, wrong error) error {
	l := c.seatAt(at, m.Slot)
	if l == nil || l.gone {
		return c.handle(at, m)
	}
	if m.Kind == KindResult {
		w, took := c.answered(l, m)
		c.waste(l, w)
		c.takeBack(l, taskKey{m.Round, m.Chunk}, TaskWasted, took)
	} else {
		m.Error = wrong.Error()
		if err := c.onState(l, m); err != nil {
			return err
		}
	}
	if !errors.Is(wrong, errPassed) {
		c.quarantine(l, wrong)
	}
	return nil
}

// verify tests what a worker gives before it is handled.
func (c *Coordinator) verify(l *line, m *Message) error {
	if c.cfg.Verify == nil || m.Error != "" {
		return nil
	}
	switch m.Kind {
	case KindResult:
		return c.verifyResult(l, m)
	case KindState:
		return c.verifyState(l, m)
	}
	return nil
}

func (c *Coordinator) verifyResult(at *line, m *Message) (err error) {
	m.residual = 0
	c.mu.Lock()
	r, l := c.active(m.Round), c.seatAt(at, m.Slot)
	if r == nil || l == nil || !l.asked(m) || r.place.verifier == nil || len(m.Tensors) != 1 {
		c.mu.Unlock()
		return nil
	}
	operand, v := r.operandOf(m.Slot).retain(), r.place.verifier
	c.mu.Unlock()
	defer operand.release()
	operands := operand.tensors()
	operands[0] = r.place.layer.Operand(operands[0], m.Chunk)
	return c.at(v, r.version, func(f coded.Follower) error {
		m.residual, err = f.Check(r.Product, m.Slot, m.Chunk, operands, m.Tensors[0])
		return err
	})
}

func (c *Coordinator) verifyState(at *line, m *Message) error {
	c.mu.Lock()
	f, l := c.fetches[m.Round], c.seatAt(at, m.Slot)
	if f == nil || f.over || l == nil || f.asked[l.slot] != l || f.place.verifier == nil || m.State != f.version {
		c.mu.Unlock()
		return nil
	}
	slot := l.slot
	c.mu.Unlock()
	return c.at(f.place.verifier, f.version, func(follower coded.Follower) error {
		return follower.CheckState(slot, m.Tensors)
	})
}

// follow lets the follower of a layer that has been encoded anew begin with the
// states of all its slots.
func (c *Coordinator) follow(p *placement, version int, states [][]coded.Tensor) error {
	v := p.verifier
	if v == nil {
		return nil
	}
	c.advance(v, version)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.version != version || v.broken != nil {
		return v.broken
	}
	return v.follower.Reset(slotStates(states))
}
