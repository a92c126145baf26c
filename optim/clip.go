package optim

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/internal/kernel"
)

// NormError says that the gradients have no finite norm.
type NormError struct {
	Param      string  // the first parameter of which it is so
	SumSquares float64 // of its gradient: NaN or infinite
}

func (e *NormError) Error() string {
	return fmt.Sprintf("gradient of %s: sum of squares %v, want a finite number", e.Param, e.SumSquares)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Clip scales the gradients in place so that the norm of all of them together
// is at most limit, as PyTorch's clip_grad_norm_ does, and returns the norm that
// they had. A norm that is not finite is a *NormError, and changes nothing.
//
// It is for training loops of one's own: an optimiser with a ClipNorm clips
// without another pass over the gradients. It is made of SumSquares and
// ClipScale. Where a part of the gradients is elsewhere, as those of layers whose
// weights live on workers in coded form, their parameters are Remote and tell the sum
// of the squares (nn.Network.SumSquares knows it), and ClipScale gives the factor for
// the Scale of their coded.Update.
func Clip(params []Param, limit float64) (norm float64, err error) {
	var p problems
	p.want(limit > 0 && finite(limit), "limit %v, want a finite number above 0", limit)
	if err := p.err("clip"); err != nil {
		return 0, err
	}
	total, err := SumSquares(params)
	if err != nil {
		return 0, fmt.Errorf("optim: clip: %w", err)
	}
	if scale := ClipScale(total, limit); scale < 1 {
		for _, p := range params {
			kernel.Scale(p.Grad, float32(scale), p.Grad)
		}
	}
	return math.Sqrt(total), nil
}

// SumSquares returns the sum of the squares of all gradients: added in float64,
// in an order that depends on the lengths alone. If it is not finite it fails
// with a *NormError.
func SumSquares(params []Param) (float64, error) {
	var total float64
	for _, p := range params {
		one := p.SumSquares
		for lo := 0; lo < len(p.Grad); lo += pieceSize {
			one += kernel.SumSquares(p.Grad[lo:min(lo+pieceSize, len(p.Grad))])
		}
		if !finite(one) {
			return 0, &NormError{Param: p.Name, SumSquares: one}
		}
		total += one
	}
	return total, nil
}

// ClipScale is the factor that brings gradients with this sum of squares to a
// norm of limit, 1 if they are within it:
//
//	min(1, limit / (sqrt(sumSquares) + 1e-6))
func ClipScale(sumSquares, limit float64) float64 {
	return min(1, limit/(math.Sqrt(sumSquares)+1e-6))
}
