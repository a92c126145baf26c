package kernel

import "fmt"

// Activation is an element-wise function, as PyTorch defines it.
type Activation uint8

// The activations. z = exp(-|x|) below; "parameter" is the argument of
// Activate, which the others do not use.
const (
	ActReLU      Activation = iota // max(x, 0)
	ActLeakyReLU                   // x if x > 0, else parameter * x
	ActExp                         // exp(x)
	ActTanh                        // tanh(x)
	ActSigmoid                     // 1 / (1 + exp(-x))
	ActSiLU                        // x * sigmoid(x)
	ActGELU                        // x * Phi(x), with the distribution function of the normal distribution
	ActSoftplus                    // log(1 + exp(x))
	ActELU                         // x if x > 0, else parameter * (exp(x) - 1)
	ActHardswish                   // x * min(max(x+3, 0), 6) / 6
	activationCount
)

// String returns the function's name in lower case.
func (a Activation) String() string {
	if a >= activationCount {
		return fmt.Sprintf("activation %d", uint8(a))
	}
	return activations[a].name
}

// UsesOutput tells whether ActivateBackward takes the output of the function
// rather than its input.
func (a Activation) UsesOutput() bool { return activations[a].fromOutput }

// Activate sets dst to the activation of each entry of x. dst may be x.
//
// All functions give the same bits on every processor: their formulas are made
// of separately rounded float32 operations. Exp, tanh, sigmoid, SiLU, softplus
// and ELU are within 2.5 units in the last place of the true value for every
// float32, subnormal results included; GELU has no cancellation in its negative
// tail, unlike 1+erf.
func Activate(p *Pool, a Activation, parameter float32, dst, x []float32) {
	checkLen(a.String(), "x", len(dst), len(x))
	t := activationTasks.get()
	*t = activationTask{kind: a, parameter: parameter, dst: dst, z: x}
	t.run(p)
}

// ActivateBackward sets dx to the gradient of the input, given that of the
// output and z, the input or the output of Activate as a.UsesOutput tells. dx
// may be dy or z.
func ActivateBackward(p *Pool, a Activation, parameter float32, dx, dy, z []float32) {
	if n := len(dx); len(dy) != n || len(z) != n { // the name costs an allocation
		op := a.String() + " backward"
		checkLen(op, "dy", n, len(dy))
		checkLen(op, "z", n, len(z))
	}
	t := activationTasks.get()
	*t = activationTask{kind: a, parameter: parameter, dst: dx, dy: dy, z: z}
	t.run(p)
}

// activationTask is a pass over some arrays, cut in chunks of equal length.
type activationTask struct {
	kind       Activation
	parameter  float32
	dst, dy, z []float32
}

var activationTasks = freeList[activationTask]{most: 8}

const activationChunk = 1 << 14

func (t *activationTask) run(p *Pool) {
	p.run(ceilDiv(len(t.dst), activationChunk), t)
	*t = activationTask{}
	activationTasks.put(t)
}

func (t *activationTask) part(i int) {
	lo := i * activationChunk
	hi := min(lo+activationChunk, len(t.dst))
	if t.dy == nil {
		activateVec(t.kind, t.dst[lo:hi], t.z[lo:hi], t.parameter)
	} else {
		activateBackVec(t.kind, t.dst[lo:hi], t.dy[lo:hi], t.z[lo:hi], t.parameter)
	}
}
