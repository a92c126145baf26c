package nn

import (
	"errors"

	"github.com/coda-ml/coda/internal/kernel"
)

// LossFunc is a loss of one's own:
//
//	hinge := nn.LossFunc{Name: "hinge", Mean: func(b nn.LossBatch) (float64, error) {
//		var sum float64
//		for i, out := range b.Out {
//			margin := 1 - b.Values[i]*out
//			sum += float64(max(0, margin))
//			if b.Grad != nil && margin > 0 {
//				b.Grad[i] = -b.Values[i] / float32(len(b.Out))
//			}
//		}
//		return sum / float64(len(b.Out)), nil
//	}}
type LossFunc struct {
	Name     string // for messages
	Labelled bool   // the target of a sample is a label, not numbers
	// Mean returns the mean loss of a batch and writes its gradient. It is called
	// by one goroutine, and must not keep what it is given.
	Mean func(LossBatch) (float64, error)
}

// LossBatch is what a LossFunc is given. Out and Values have a row of Outputs
// numbers for each sample.
type LossBatch struct {
	Out     []float32
	Outputs int
	Labels  []int32   // of a labelled loss, one for each sample
	Values  []float32 // of any other
	Grad    []float32 // of the mean with respect to Out: zeros, to be written; nil if it is not wanted
}

func (l LossFunc) check(int) error {
	if l.Mean == nil {
		return errors.New("loss function: Mean is nil")
	}
	return nil
}

func (l LossFunc) labelled() bool { return l.Labelled }

func (l LossFunc) name() string {
	if l.Name == "" {
		return "loss function"
	}
	return l.Name
}

func (l LossFunc) mean(_ *kernel.Pool, out []float32, t target, _, outputs int, grad []float32) (float64, error) {
	clear(grad)
	return l.Mean(LossBatch{Out: out, Outputs: outputs, Labels: t.labels, Values: t.values, Grad: grad})
}
