package coded

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/internal/kernel"
)

// Form says how a matrix that a Verifier keeps stands in the products.
type Form uint8

const (
	FX  Form = iota // R = F X
	XF              // R = X F: the forward product of a layer whose weights are F
	XFT             // R = X F^T: its backward product
)

// Verifier tests products of a matrix F, which is kept, without computing them:
// by the test of R. Freivalds ("Probabilistic machines can use less running time",
// IFIP Congress 1977). With signs z, drawn at random and not known to those who
// compute,
//
//	R = X F  implies  R z = X (F z)
//
// and F z is computed once, so that a result costs two products of a matrix by a
// vector, as many operations as it and its operand have elements. (R = F X is
// tested as z^T R = (z^T F) X.) If R is wrong in an entry by e, one of the two
// values of that entry's sign leaves a difference of at least |e|: so a result with
// an error of more than twice the limit below passes with a probability of at most
// 1/2 for each vector of signs, 2^-reps in all, and an error in a single entry is
// always found. Several liars may share what they know, but not z.
//
// # The limit
//
// An honest float32 result is rounded, and so is the test. A difference counts when
// it is larger than
//
//	2^-24 sqrt(t) (32 |R_i| + |F| |X_i|)
//
// with t terms in each sum, R_i and X_i the row (of F X the column) at hand, and
// norms of Frobenius. For roundings that are independent, or at least of mean 0,
// the error of a sum of t terms is below l sqrt(t) 2^-24 times the sum of the
// magnitudes of its terms with a probability of 1 - 2 exp(-l^2/2) (N. Higham, T.
// Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci.
// Comput. 41, 2019), and the sum of such errors with random signs is below l times
// their norm just as surely (Hoeffding's inequality). The first term is more than
// ten times what products of terms of mean 0, or of one sign, need. It leaves room
// for sums of equal terms, whose roundings are not independent: adding 4096 of them
// one after another takes half of it. The second term is for sums that cancel. A
// difference of less than 8 |R_i|, with the root mean square of the norms of all
// rows, passes without a look at the row's own norms.
//
// A Verifier is immutable, and safe for concurrent use.
type Verifier struct {
	form     Form
	out      int // rows of F X, columns of X F: what the signs are for
	rounding Rounding
	signs    [][]float32 // for each repetition
	parts    []kept
}

// kept is one of the matrices side by side that F is made of.
type kept struct {
	inner int
	sums  [][]float32 // for each repetition, F z
}

// NewVerifier draws the signs of so many repetitions and multiplies F by them. F
// may be several matrices: the products are then sums, R = F_1 X_1 + F_2 X_2 + ...,
// as of a task with several coded blocks.
func NewVerifier(form Form, reps int, rng *rand.Rand, f ...Tensor) (*Verifier, error) {
	const what = "verifier"
	switch {
	case form > XFT:
		return nil, fmt.Errorf("coded: %s: form %d, want FX, XF or XFT", what, form)
	case reps < 1:
		return nil, fmt.Errorf("coded: %s: %d repetitions, want at least 1", what, reps)
	case len(f) == 0:
		return nil, fmt.Errorf("coded: %s: no matrix", what)
	case rng == nil:
		return nil, fmt.Errorf("coded: %s: no random source", what)
	}
	v := &Verifier{form: form, out: -1}
	outer := 0 // the dimension of F that R has too
	if form == XF {
		outer = 1
	}
	var squares float64
	for i, x := range f {
		if len(x.Shape) != 2 || !filled(x.Shape, len(x.Data)) || v.out >= 0 && x.Shape[outer] != v.out {
			return nil, shapeError(fmt.Sprintf("%s: matrix %d", what, i), x, withSize([]int{-1, -1}, outer, v.out), "")
		}
		v.out = x.Shape[outer]
		v.rounding.Terms += x.Shape[1-outer]
		squares += kernel.SumSquares(x.Data)
	}
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return nil, fmt.Errorf("coded: %s: the squares of the matrix add up to %v, want finite numbers", what, squares)
	}
	v.rounding.Norm = math.Sqrt(squares)
	for range reps {
		v.signs = append(v.signs, drawSigns(rng, v.out))
	}
	for _, x := range f {
		v.parts = append(v.parts, v.keep(x))
	}
	return v, nil
}

// VerifyProduct tests whether r is the product of a and b, with so many vectors of
// signs: see Verifier, which is cheaper where a matrix is used again.
func VerifyProduct(r, a, b Tensor, reps int, rng *rand.Rand) error {
	v, err := NewVerifier(FX, reps, rng, a)
	if err != nil {
		return err
	}
	return v.Check(r, b)
}

func drawSigns(rng *rand.Rand, n int) []float32 {
	signs := make([]float32, n)
	var bits uint64
	for i := range signs {
		if i%64 == 0 {
			bits = rng.Uint64()
		}
		signs[i] = float32(int(bits&1)*2 - 1)
		bits >>= 1
	}
	return signs
}

// keep multiplies a part of F by the signs.
func (v *Verifier) keep(x Tensor) kept {
	k := kept{inner: x.Shape[1]}
	if v.form == XF {
		k.inner = x.Shape[0]
	}
	for _, z := range v.signs {
		sums := make([]float64, k.inner)
		if v.form == XF {
			addRowSums(sums, x.Data, z)
		} else {
			addColumnSums(sums, x.Data, z)
		}
		rounded := make([]float32, k.inner)
		for i, s := range sums {
			rounded[i] = float32(s)
		}
		k.sums = append(k.sums, rounded)
	}
	return k
}

// VerifyError says that a result is not the product that it should be.
type VerifyError struct {
	Column     bool // Line is a column
	Line       int  // row or column of the result
	Difference float64
	Limit      float64 // what rounding explains
}

func (e *VerifyError) Error() string {
	line := "row"
	if e.Column {
		line = "column"
	}
	return fmt.Sprintf("the result is not the product: %s %d differs by %.3g in a sum with random signs, rounding explains %.3g",
		line, e.Line, e.Difference, e.Limit)
}

// Check tests whether the result is the product of F and x, one operand for each
// matrix that the Verifier was given. The error is a *VerifyError if it is not, and
// a *ShapeError if it cannot be. A result that is not finite is never the product.
func (v *Verifier) Check(result Tensor, x ...Tensor) error {
	_, err := v.Residual(result, x...)
	return err
}

// Residual is Check, and tells by how much the result differs, see Rounding.Judge: the
// largest of the repetitions.
func (v *Verifier) Residual(result Tensor, x ...Tensor) (residual float64, err error) {
	lines, err := v.checkShapes(result, x)
	if err != nil {
		return 0, err
	}
	got, want := make([]float64, lines), make([]float64, lines)
	for rep, z := range v.signs {
		clear(got)
		clear(want)
		v.add(got, result, z)
		for i, k := range v.parts {
			v.add(want, x[i], k.sums[rep])
		}
		apart, err := v.judge(got, want, result, x)
		residual = max(residual, apart)
		if err != nil {
			return residual, err
		}
	}
	return residual, nil
}

// checkShapes returns the number of rows of X F, of columns of F X.
func (v *Verifier) checkShapes(result Tensor, x []Tensor) (lines int, err error) {
	if len(x) != len(v.parts) {
		return 0, fmt.Errorf("coded: verify: %d operands, want %d", len(x), len(v.parts))
	}
	along, lines := 0, -1
	if v.form == FX {
		along = 1
	}
	check := func(what string, x Tensor, inner int) error {
		if len(x.Shape) != 2 || !filled(x.Shape, len(x.Data)) || x.Shape[1-along] != inner || lines >= 0 && x.Shape[along] != lines {
			return shapeError("verify: "+what, x, withSize([]int{inner, inner}, along, lines), "")
		}
		lines = x.Shape[along]
		return nil
	}
	for i, k := range v.parts {
		if err := check(fmt.Sprintf("operand %d", i), x[i], k.inner); err != nil {
			return 0, err
		}
	}
	return lines, check("result", result, v.out)
}

// add adds, for each line of x, its elements times the weights.
func (v *Verifier) add(dst []float64, x Tensor, w []float32) {
	if v.form == FX {
		addColumnSums(dst, x.Data, w)
	} else {
		addRowSums(dst, x.Data, w)
	}
}

// addRowSums adds to dst[i] the sum over j of x[i,j] w[j].
func addRowSums(dst []float64, x, w []float32) {
	n := len(w)
	for i := range dst {
		dst[i] += float64(kernel.Dot(x[i*n:(i+1)*n], w))
	}
}

// signedRows is the number of rows whose sum is made in float32 before it is added to
// a sum in float64.
const signedRows = 16

// addColumnSums adds to dst[j] the sum over i of w[i] x[i,j].
func addColumnSums(dst []float64, x, w []float32) {
	n := len(dst)
	if n == 1 {
		dst[0] += float64(kernel.Dot(x, w))
		return
	}
	sum := make([]float32, n)
	var rows [signedRows][]float32
	for at := 0; at < len(w) && n > 0; at += signedRows {
		some := w[at:min(at+signedRows, len(w))]
		for i := range some {
			rows[i] = x[(at+i)*n : (at+i+1)*n]
		}
		kernel.Combine(sum, some, rows[:len(some)])
		for j, s := range sum {
			dst[j] += float64(s)
		}
	}
}

// judge compares the sums of a result with those of the product.
func (v *Verifier) judge(got, want []float64, result Tensor, x []Tensor) (residual float64, err error) {
	residual, wrong := v.rounding.Judge(got, want, func(line int) (squares, operand float64) {
		for _, part := range x {
			operand += v.lineSquares(part, line, len(want))
		}
		return v.lineSquares(result, line, len(want)), operand
	})
	if wrong != nil {
		wrong.Column = v.form == FX
		return residual, wrong
	}
	return residual, nil
}

// Rounding tells which differences between sums with random signs rounding explains:
// those within the limit of Verifier.
type Rounding struct {
	Terms int     // in each sum of a product: t
	Norm  float64 // of the matrix that multiplies, by Frobenius: |F|
	Off   float64 // by which that matrix may be off in addition, in units of 2^-24 |F|
}

// The parts of the limit, see Verifier.
const (
	roundoff    = 1.0 / (1 << 24)
	margin      = 32
	quickMargin = 8
)

// Judge compares the sums of a result, one for each of its lines, with those of the
// product, and returns nil if rounding explains all differences. squares gives the
// sums of squares of a line: of the result, and of the operand's elements that it
// is made of. It is asked about few lines of an honest result. The residual is the
// norm of all differences over that of the product's sums: of an honest result some
// 2^-24 sqrt(Terms), as long as the sums do not cancel.
func (r Rounding) Judge(got, want []float64, squares func(line int) (result, operand float64)) (residual float64, wrong *VerifyError) {
	var apart float64
	t := float64(max(1, r.Terms))
	unit := roundoff * math.Sqrt(t)
	size := norm(want)
	quick := quickMargin * unit * size / math.Sqrt(float64(max(1, len(want))))
	for i, w := range want {
		d := math.Abs(got[i] - w)
		apart += d * d
		if d <= quick && !math.IsInf(d, 0) {
			continue
		}
		result, operand := squares(i)
		limit := unit * (margin*math.Sqrt(result) + (1+r.Off/math.Sqrt(t))*r.Norm*math.Sqrt(operand))
		if wrong == nil && (!(d <= limit) || math.IsInf(d, 0)) {
			wrong = &VerifyError{Line: i, Difference: d, Limit: limit}
		}
	}
	return ratio(math.Sqrt(apart), size), wrong
}

// lineSquares sums the squares of one of the lines of x.
func (v *Verifier) lineSquares(x Tensor, line, lines int) float64 {
	if v.form != FX {
		return kernel.SumSquares(x.Data[line*x.Shape[1] : (line+1)*x.Shape[1]])
	}
	var sum float64
	for at := line; at < len(x.Data); at += lines {
		sum += float64(x.Data[at]) * float64(x.Data[at])
	}
	return sum
}
