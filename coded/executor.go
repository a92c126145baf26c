package coded

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// This file holds the border between the layers of a network (nn, nn/shard)
// and the cluster that computes for them (dist): neither imports the other.
//
// A placed layer is cut into the slots of a one-sided (n, k) code. Each slot
// is held by one worker as a Shard. A Round sends one operand to the workers
// and gathers, chunk by chunk, the products of a sufficient set of slots.

// Product names a product that the shards of a placed layer can compute.
type Product uint8

const (
	Forward  Product = 1 // operand X, wanted Y = X W
	Backward Product = 2 // operand dY, wanted dX = dY W^T
	Gradient Product = 3 // operands dY and X, wanted dW = X^T dY
)

// Valid tells whether p is one of the products.
func (p Product) Valid() bool { return p >= Forward && p <= Gradient }

func (p Product) String() string {
	switch p {
	case Forward:
		return "forward"
	case Backward:
		return "backward"
	case Gradient:
		return "gradient"
	}
	return fmt.Sprintf("product(%d)", uint8(p))
}

// Layer describes a placed layer in plain data, so that it can travel.
type Layer struct {
	Name   string // dotted, unique in the model: "fc1"
	Kind   string // what the worker's Factory builds: "linear"
	Code   Spec   // the code over the slots
	Chunks int    // chunks into which each product of a shard is cut, at least 1
	Config []byte // the kind's own settings; opaque to the cluster
	// ByBatch tells that a chunk is some of the operand's rows, about as many for
	// each, with all that the shard has; else it is a part of the shard, with all rows.
	ByBatch bool
}

// ErrTooFewRows is the kind of error of an operand with fewer rows than a layer
// that is cut by batch has chunks.
var ErrTooFewRows = errors.New("fewer rows than chunks")

// Rows returns the rows of an operand of so many that a chunk of a layer needs:
// lo to hi.
func (l Layer) Rows(rows, chunk int) (lo, hi int) {
	if !l.ByBatch {
		return 0, rows
	}
	return chunk * rows / l.Chunks, (chunk + 1) * rows / l.Chunks
}

// Operand returns what a shard is given of an operand to compute a chunk, in the
// operand's memory.
func (l Layer) Operand(x Tensor, chunk int) Tensor {
	if !l.ByBatch || len(x.Shape) == 0 || x.Shape[0] == 0 {
		return x
	}
	lo, hi := l.Rows(x.Shape[0], chunk)
	size := len(x.Data) / x.Shape[0]
	return Tensor{Shape: append([]int{hi - lo}, x.Shape[1:]...), Data: x.Data[lo*size : hi*size]}
}

// Shard is what one worker holds of a layer (the slot's coded copies of the
// weights and of their momenta) and what it computes with them. Its methods
// are called by one goroutine at a time.
type Shard interface {
	// Multiply computes one chunk (0 <= chunk < Layer.Chunks) of a product of
	// the operand x; of a layer that is cut by batch, x is the chunk's rows alone,
	// see Layer.Operand. The result is borrowed: it is valid until the next call.
	Multiply(p Product, x Tensor, chunk int) (Tensor, error)
	// Accumulate adds the gradient of one pair of operands, X of the forward
	// and dY of the backward product of the same step, to the pending gradient.
	Accumulate(x, dy Tensor) error
	// Apply makes one optimiser step with the pending gradient and clears it.
	Apply(u Update) error
	// State lists the shard's tensors in a fixed order, borrowed. Every one of
	// them is a linear function of the layer's weights and momenta with the
	// coefficients of the slot, so that a lost shard is the same linear
	// combination of other slots' states, tensor by tensor.
	State() []Tensor
	// SetState replaces the shard's tensors; the data is copied. A kind of shard may
	// take shorter forms of a state as well, which stand for one that State would list.
	SetState(state []Tensor) error
}

// DeferringShard is a Shard that can put off what Accumulate computes, and do it part
// by part, or together with the update.
type DeferringShard interface {
	Shard
	// Defer is Accumulate without its work. The shard refers to x and dy, which must stay
	// as they are, until Proceed has returned 0 or any of Accumulate, Defer, Apply and
	// SetState has been called.
	Defer(x, dy Tensor) error
	// Proceed does a part of the work that was put off, of some tens of millions of
	// floating-point operations, and returns how many: 0 if nothing is left. What is left
	// at the next Apply is done there, at less cost than here. The shard's state does not
	// depend, to the bit, on how much was done when.
	Proceed() (flops float64)
}

// PairShard is a Shard with products of two operands.
type PairShard interface {
	Shard
	// MultiplyPair is Multiply for a round whose Slots have two operands.
	MultiplyPair(p Product, a, b Tensor, chunk int) (Tensor, error)
}

// RowsShard is a Shard that can compute a chunk from the rows of the operand that it
// needs, see Round.ByRows.
type RowsShard interface {
	Shard
	// MultiplyRows is Multiply for the rows alone.
	MultiplyRows(p Product, rows Tensor) (Tensor, error)
}

// StoppableShard is a Shard that can give up a product while it computes it.
type StoppableShard interface {
	Shard
	// MultiplyUntil is Multiply, but fails with a *StoppedError soon after stop has
	// been closed, within the time of some tens of millions of operations. A nil
	// channel never stops it. The result does not depend on stop.
	MultiplyUntil(stop <-chan struct{}, p Product, x Tensor, chunk int) (Tensor, error)
}

// StoppedError says that a product was given up.
type StoppedError struct {
	Done float64 // fraction of its arithmetic, from 0 to 1
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("coded: product stopped when %.0f %% of it was done", 100*e.Done)
}

// Multiply computes one chunk of a product with the one or two operands of a slot.
// A StoppableShard's product of one operand ends early when stop is closed.
func Multiply(stop <-chan struct{}, s Shard, p Product, operands []Tensor, chunk int) (Tensor, error) {
	if len(operands) == 1 {
		if s, ok := s.(StoppableShard); ok {
			return s.MultiplyUntil(stop, p, operands[0], chunk)
		}
		return s.Multiply(p, operands[0], chunk)
	}
	pair, ok := s.(PairShard)
	if !ok || len(operands) != 2 {
		return Tensor{}, fmt.Errorf("coded: %s product of %d operands by a %T", p, len(operands), s)
	}
	return pair.MultiplyPair(p, operands[0], operands[1], chunk)
}

// Factory builds the shard of a layer at a slot, with a state of zeros.
type Factory func(l Layer, slot int) (Shard, error)

// Update is one step of a linear optimiser, in PyTorch's form:
//
//	g = Scale*grad + Decay*w;  v = Momentum*v + g (v = g at the first step);
//	w -= LR * (g + Momentum*v if Nesterov, v if Momentum > 0, else g)
//
// An update is applied once per Step, however often it arrives.
type Update struct {
	Step     int     // number of the training step, from 1
	LR       float64 // learning rate
	Momentum float64
	Decay    float64 // L2 penalty added to the gradient
	Scale    float64 // factor of the accumulated gradient
	Nesterov bool
}

// Round is one product of a placed layer over the cluster.
type Round struct {
	Layer   string
	Product Product
	Step    int    // training step, for messages, faults and records
	Operand Tensor // the same for every slot; copied before Start returns
	// Slots, where given, holds operands for each slot in place of Operand, copied
	// as well: a coded block; or two, one of each factor of a product of which both
	// are coded. Such a round keeps nothing.
	Slots [][]Tensor
	// Keep tells the workers to hold the operand for the next Update (training).
	Keep bool
	// Discard tells that no result is wanted: the operand is only handed over.
	Discard bool
	// ByRows tells that a chunk of this round needs some rows of its operand alone, those
	// that Layer.Rows has for a layer that is cut by batch, so that it can be computed
	// before the others are there. Each operand has at least as many rows as there are
	// chunks, and the shards are RowsShards.
	ByRows bool
}

// Answer is what one slot gave for one chunk.
type Answer struct {
	Slot   int
	Result Tensor
}

// Pending is a round under way. One goroutine uses it.
type Pending interface {
	// Wait returns the answers of every chunk once each can be decoded: by
	// chunk, then in the order of slots. It fails with a *TooFewError, or with
	// the context's error. The tensors are borrowed until Release.
	Wait(ctx context.Context) ([][]Answer, error)
	// Release gives the answers' memory back. It ends the round if Wait was
	// not called or failed. It may be called more than once.
	Release()
}

// Check tells whether a round is one that an executor of so many slots can run.
func (r Round) Check(slots int) error {
	switch {
	case !r.Product.Valid():
		return fmt.Errorf("no such product: %s", r.Product)
	case r.Keep && (r.Product == Gradient || r.Slots != nil):
		return fmt.Errorf("%s product: operands of their own for the slots cannot be kept", r.Product)
	case r.ByRows && (r.Product == Gradient || r.Keep):
		return fmt.Errorf("%s product: operands by rows cannot be kept", r.Product)
	case r.Slots != nil && len(r.Slots) != slots:
		return fmt.Errorf("%s product: operands for %d slots, want %d", r.Product, len(r.Slots), slots)
	}
	for slot, operands := range r.Slots {
		n, most, want := len(operands), 2, "1 or 2"
		if r.ByRows {
			most, want = 1, "1"
		}
		if n < 1 || n > most {
			return fmt.Errorf("%s product: %d operands for slot %d, want %s", r.Product, n, slot, want)
		}
	}
	return nil
}

// Operands returns those of a slot.
func (r Round) Operands(slot int) []Tensor {
	if r.Slots != nil {
		return r.Slots[slot]
	}
	return []Tensor{r.Operand}
}

// ShardState is the state of one slot, see Shard.State.
type ShardState struct {
	Slot  int
	State []Tensor
}

// Executor runs the rounds of placed layers. Its methods are called by one
// goroutine, the training loop; several rounds may be pending at a time.
type Executor interface {
	// Place puts a layer on the cluster (or anew with other weights): state
	// gives the tensors for SetState of a slot's shard, borrowed until its next call.
	// It is called for one slot after the other, as they are sent.
	Place(ctx context.Context, l Layer, state func(slot int) ([]Tensor, error)) error
	// Start hands a round over and returns at once.
	Start(ctx context.Context, r Round) (Pending, error)
	// Update makes every shard apply an optimiser step to the operands kept
	// since the last one. It returns when the step is handed over.
	Update(ctx context.Context, u Update) error
	// Fetch returns the states of a sufficient set of slots, all after the
	// same update, in the order of slots: all of their tensors, or, where given,
	// those of these numbers alone. The tensors belong to the caller.
	Fetch(ctx context.Context, layer string, tensors ...int) ([]ShardState, error)
	// FetchAll is Fetch of every slot that can give its state before long, to
	// compare what they hold.
	FetchAll(ctx context.Context, layer string, tensors ...int) ([]ShardState, error)
}

// SelectTensors returns those of a state that have the numbers; all if none is given.
func SelectTensors(state []Tensor, numbers []int) ([]Tensor, error) {
	if len(numbers) == 0 {
		return state, nil
	}
	selected := make([]Tensor, len(numbers))
	for i, n := range numbers {
		if n < 0 || n >= len(state) {
			return nil, fmt.Errorf("coded: tensor %d of a state of %d", n, len(state))
		}
		selected[i] = state[n]
	}
	return selected, nil
}

// ErrTooFewResults is the kind of error that TooFewError is.
var ErrTooFewResults = errors.New("too few results")

// TooFewError says that a round ended without enough answers.
type TooFewError struct {
	Layer   string
	Product Product
	Step    int
	Have    int      // slots that answered or still can
	Need    int      // slots needed
	Missing []string // workers that are missing, each with its reason
}

func (e *TooFewError) Error() string {
	return fmt.Sprintf("layer %s: step %d: %s product: %d of %d workers needed are left; missing: %s",
		e.Layer, e.Step, e.Product, e.Have, e.Need, strings.Join(e.Missing, ", "))
}

func (e *TooFewError) Unwrap() error { return ErrTooFewResults }
