package coded

import "math/rand/v2"

// Follower tells whether what the slots of a placed layer give is right without
// holding their shards. It follows secret sums of the weights, those of Freivalds'
// test (see Verifier), by the same operands and updates as the shards themselves:
// a linear optimiser commutes with the sums as it does with the code.
//
// Check and CheckState may be called by many goroutines at a time; the others by
// one, and not meanwhile.
type Follower interface {
	// Reset begins with the states of a sufficient set of slots after one update,
	// in the order of slots, which are believed.
	Reset(states []ShardState) error
	// Accumulate and Apply are those of Shard.
	Accumulate(x, dy Tensor) error
	Apply(u Update) error
	// Check tests the result of a chunk of a product at a slot, for the one or two
	// operands that the shard was given (see Multiply, Layer.Operand). The error is a
	// *VerifyError or a *ShapeError if it is wrong. The residual is by how much the
	// result differs, see Rounding.Judge; 0 if that cannot be told.
	Check(p Product, slot, chunk int, operands []Tensor, result Tensor) (residual float64, err error)
	// CheckState tests the weights in a slot's state.
	CheckState(slot int, state []Tensor) error
}

// FollowerFactory builds the follower of a layer, which must be Reset. The source
// draws the signs of the sums; who can guess it can deceive the follower.
type FollowerFactory func(l Layer, rng *rand.Rand) (Follower, error)

// FollowedVerifier returns the Verifier of products X F^T for a matrix F that is
// not at hand: from the signs, one for each row of F, and the sums of F's rows with
// those signs, one for each column.
func FollowedVerifier(signs, sums []float32, r Rounding) *Verifier {
	return &Verifier{
		form: XFT, out: len(signs), rounding: r,
		signs: [][]float32{signs}, parts: []kept{{inner: len(sums), sums: [][]float32{sums}}},
	}
}
