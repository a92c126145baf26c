package nn

import "github.com/coda-ml/coda/coded"

// Param is a parameter of a model: a tensor and what is to be done with it.
// Modules hold pointers to their parameters in exported fields, where Params
// finds them. Layouts are PyTorch's: a Linear's weight is [out, in], a
// Conv2d's is [out, in/groups, kernel height, kernel width].
type Param struct {
	// Value is the tensor. Its numbers may be changed between steps; its
	// shape and its memory must stay while a Network uses it.
	Value coded.Tensor

	// Grad is the gradient of the last training step, of the length of
	// Value.Data, borrowed from the Network until its next step. It is nil
	// before the first step, after a failed one, and for a parameter that is
	// Frozen, Remote or not used.
	Grad []float32

	// Frozen parameters are neither differentiated nor updated.
	Frozen bool

	// NoDecay tells that weight decay is not meant for this parameter.
	NoDecay bool

	// Remote parameters are trained elsewhere, by the placement of their layer.
	// Optimisers leave them alone; the placement brings Value up to date.
	Remote bool
}

// NewParam returns a trainable parameter of zeros.
func NewParam(shape ...int) *Param {
	return &Param{Value: coded.NewTensor(shape...)}
}

// Size returns the number of elements.
func (p *Param) Size() int { return len(p.Value.Data) }

// NamedParam is a parameter and its dotted name in the model, "conv1.weight".
type NamedParam struct {
	Name string
	*Param
}
