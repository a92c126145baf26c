package coded

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
)

// drawMatrix draws a matrix whose elements depend on their index, if draw wants.
func drawMatrix(rows, cols int, draw func(i, j int) float32) Tensor {
	x := NewTensor(rows, cols)
	for i := range x.Data {
		x.Data[i] = draw(i/cols, i%cols)
	}
	return x
}

func normalMatrix(rng *rand.Rand, rows, cols int) Tensor {
	return drawMatrix(rows, cols, func(int, int) float32 { return float32(rng.NormFloat64()) })
}

func transposed(x Tensor) Tensor {
	return drawMatrix(x.Shape[1], x.Shape[0], func(i, j int) float32 { return x.Data[j*x.Shape[1]+i] })
}

// honest computes what a form stands for.
func honest(form Form, f, x Tensor) Tensor {
	switch form {
	case FX:
		y := NewTensor(f.Shape[0], x.Shape[1])
		kernel.Gemm(nil, false, false, f.Shape[0], x.Shape[1], f.Shape[1], 1, f.Data, f.Shape[1], x.Data, max(1, x.Shape[1]), 0, y.Data, max(1, x.Shape[1]))
		return y
	case XF:
		return honest(FX, x, f)
	}
	return honest(FX, x, transposed(f))
}

// operand draws an operand of c columns (of F X) or rows.
func operand(form Form, f Tensor, c int, draw func(rows, cols int) Tensor) Tensor {
	switch form {
	case FX:
		return draw(f.Shape[1], c)
	case XF:
		return draw(c, f.Shape[0])
	}
	return draw(c, f.Shape[1])
}

var forms = map[string]Form{"F X": FX, "X F": XF, "X F^T": XFT}

// worst gives the largest difference of an honest product over its limit.
func (v *Verifier) worst(result, x Tensor) float64 {
	lines, err := v.checkShapes(result, []Tensor{x})
	if err != nil {
		return math.NaN()
	}
	var worst float64
	for rep, z := range v.signs {
		got, want := make([]float64, lines), make([]float64, lines)
		v.add(got, result, z)
		v.add(want, x, v.parts[0].sums[rep])
		for i := range got {
			limit := roundoff * math.Sqrt(float64(v.rounding.Terms)) *
				(margin*math.Sqrt(v.lineSquares(result, i, lines)) + v.rounding.Norm*math.Sqrt(v.lineSquares(x, i, lines)))
			if d := math.Abs(got[i] - want[i]); d > 0 {
				worst = max(worst, d/limit)
			}
		}
	}
	return worst
}

// TestNoFalseAlarm: over thousands of honest sums, of data of many kinds, no difference
// comes near the limit.
func TestNoFalseAlarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // begins anew for each of them
	kinds := map[string]func(i, j int) float32{
		"normal":      func(int, int) float32 { return float32(rng.NormFloat64()) },
		"positive":    func(int, int) float32 { return rng.Float32() },
		"equal":       func(int, int) float32 { return 0.1 },
		"cancelling":  func(i, j int) float32 { return 0.1 - 0.2*float32((i/8)%2) },
		"heavy tails": func(int, int) float32 { return float32(math.Exp(3 * rng.NormFloat64())) },
		"small":       func(int, int) float32 { return 1e-15 * float32(rng.NormFloat64()) },
		"uneven":      func(i, j int) float32 { return float32(math.Pow(10, float64((i+j)%7)) * rng.NormFloat64()) },
		"sparse":      func(int, int) float32 { return float32(rng.IntN(10) / 9) },
	}
	for name, draw := range kinds {
		for at, form := range forms {
			*rng = *rand.New(rand.NewPCG(1, 2))
			var worst float64
			for range 12 {
				f := drawMatrix(1+rng.IntN(96), 1+rng.IntN(160), draw)
				x := operand(form, f, 1+rng.IntN(40), func(rows, cols int) Tensor { return drawMatrix(rows, cols, draw) })
				y := honest(form, f, x)
				v, err := NewVerifier(form, 4, rng, f)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Check(y, x); err != nil {
					t.Errorf("%s, %s: %v", name, at, err)
				}
				worst = max(worst, v.worst(y, x))
			}
			if worst > 0.5 {
				t.Errorf("%s, %s: a difference of %.2f of the limit", name, at, worst)
			}
		}
	}
}

// TestNoFalseAlarmInLongSums: sums of equal terms, made one after another, are what
// rounds worst.
func TestNoFalseAlarmInLongSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const terms = 4096
	for _, c := range []float32{0.1, 1.0 / 3, 0.7, 1e-3} {
		f := drawMatrix(8, terms, func(int, int) float32 { return c })
		x, y := transposed(f), NewTensor(8, 8)
		var sum float32
		for range terms {
			sum += float32(c * c)
		}
		for i := range y.Data {
			y.Data[i] = sum
		}
		v, err := NewVerifier(FX, 16, rng, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Check(y, x); err != nil {
			t.Errorf("%g: %v", c, err)
		}
	}
}

// lies are what a worker may give instead of an honest result.
var lies = map[string]func(rng *rand.Rand, y Tensor, replay func() Tensor){
	"one entry off by a thousandth": func(rng *rand.Rand, y Tensor, _ func() Tensor) {
		i := rng.IntN(len(y.Data))
		for ; math.Abs(float64(y.Data[i])) < float64(kernel.MaxAbs(y.Data))/2; i = rng.IntN(len(y.Data)) {
		}
		y.Data[i] *= 1.001
	},
	"one sign": func(rng *rand.Rand, y Tensor, _ func() Tensor) {
		i := rng.IntN(len(y.Data))
		y.Data[i] = -y.Data[i] - 0.1
	},
	"all signs": func(_ *rand.Rand, y Tensor, _ func() Tensor) { kernel.Scale(y.Data, -1, y.Data) },
	"replaced": func(rng *rand.Rand, y Tensor, _ func() Tensor) {
		for i := range y.Data {
			y.Data[i] = float32(rng.NormFloat64())
		}
	},
	"transposed": func(_ *rand.Rand, y Tensor, _ func() Tensor) { copy(y.Data, transposed(y).Data) },
	"replayed":   func(_ *rand.Rand, y Tensor, replay func() Tensor) { copy(y.Data, replay().Data) },
	"zero":       func(_ *rand.Rand, y Tensor, _ func() Tensor) { clear(y.Data) },
	"scaled":     func(_ *rand.Rand, y Tensor, _ func() Tensor) { kernel.Scale(y.Data, 1.01, y.Data) },
	"huge":       func(rng *rand.Rand, y Tensor, _ func() Tensor) { y.Data[rng.IntN(len(y.Data))] = 3e38 },
	"shifted rows": func(_ *rand.Rand, y Tensor, _ func() Tensor) {
		n := y.Shape[1]
		copy(y.Data, append(slices.Clone(y.Data[n:]), y.Data[:n]...))
	},
	"NaN":      func(_ *rand.Rand, y Tensor, _ func() Tensor) { y.Data[len(y.Data)-1] = float32(math.NaN()) },
	"infinite": func(_ *rand.Rand, y Tensor, _ func() Tensor) { y.Data[0] = float32(math.Inf(-1)) },
}

func TestLiesAreFound(t *testing.T) {
	for at, form := range forms {
		for _, size := range [][3]int{{8, 8, 8}, {48, 48, 48}, {64, 200, 30}} {
			rng := rand.New(rand.NewPCG(5, 6))
			f := normalMatrix(rng, size[0], size[1])
			if form == XF {
				f = transposed(f)
			}
			draw := func(rows, cols int) Tensor { return normalMatrix(rng, rows, cols) }
			x := operand(form, f, size[2], draw)
			v, err := NewVerifier(form, 20, rng, f)
			if err != nil {
				t.Fatal(err)
			}
			for name, lie := range lies {
				rng = rand.New(rand.NewPCG(7, 8))
				y := honest(form, f, x)
				lie(rng, y, func() Tensor { return honest(form, f, operand(form, f, size[2], draw)) })
				var wrong *VerifyError
				if err := v.Check(y, x); !errors.As(err, &wrong) || wrong.Difference < wrong.Limit || wrong.Column != (form == FX) {
					t.Errorf("%s, %v, %s: %v", at, size, name, err)
				}
			}
		}
	}
}

// TestFreivaldsProbability: errors that cancel for half of the signs pass half of the
// tests, and with r vectors of signs one in 2^r.
func TestFreivaldsProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	f, x := normalMatrix(rng, 12, 10), normalMatrix(rng, 10, 5)
	y := honest(FX, f, x)
	y.Data[2] += 1 // of column 2, in rows 0 and 7
	y.Data[7*5+2]--
	const draws = 2000
	for reps := 1; reps <= 3; reps++ {
		passed := 0
		for range draws {
			if VerifyProduct(y, f, x, reps, rng) == nil {
				passed++
			}
		}
		want := draws / float64(int(1)<<reps)
		if e := math.Abs(float64(passed) - want); e > 4*math.Sqrt(want) {
			t.Errorf("%d repetitions: %d of %d passed, want %g", reps, passed, draws, want)
		}
	}
}

// TestVerifierOfSums: a task with several coded blocks returns a sum of products.
func TestVerifierOfSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	f := []Tensor{normalMatrix(rng, 6, 4), normalMatrix(rng, 6, 9)}
	x := []Tensor{normalMatrix(rng, 4, 7), normalMatrix(rng, 9, 7)}
	y := honest(FX, f[0], x[0])
	kernel.Add(y.Data, y.Data, honest(FX, f[1], x[1]).Data)
	v, err := NewVerifier(FX, 3, rng, f...)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Check(y, x...); err != nil {
		t.Error(err)
	}
	x[0] = normalMatrix(rng, 4, 7)
	if err := v.Check(y, x...); !errors.As(err, new(*VerifyError)) {
		t.Errorf("another operand: %v", err)
	}
}

func TestVerifierOfNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range [][3]int{{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {0, 0, 0}} {
		f := NewTensor(size[0], size[1])
		v, err := NewVerifier(FX, 1, rng, f)
		if err != nil {
			t.Fatal(err)
		}
		y := NewTensor(size[0], size[2])
		if err := v.Check(y, NewTensor(size[1], size[2])); err != nil {
			t.Errorf("%v: %v", size, err)
		}
		if len(y.Data) > 0 {
			y.Data[0] = 1e-30
			if err := v.Check(y, NewTensor(size[1], size[2])); err == nil {
				t.Errorf("%v: a sum of nothing is %g", size, y.Data[0])
			}
		}
	}
}

func TestVerifierErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f, x, y := NewTensor(3, 4), NewTensor(4, 2), NewTensor(3, 2)
	infinite := NewTensor(1, 1)
	infinite.Data[0] = float32(math.Inf(1))
	v, err := NewVerifier(FX, 1, rng, f)
	if err != nil {
		t.Fatal(err)
	}
	made := func(form Form, reps int, rng *rand.Rand, f ...Tensor) error {
		_, err := NewVerifier(form, reps, rng, f...)
		return err
	}
	for want, err := range map[string]error{
		"form 3, want FX, XF or XFT":                           made(3, 1, rng, f),
		"0 repetitions, want at least 1":                       made(FX, 0, rng, f),
		"no matrix":                                            made(FX, 1, rng),
		"no random source":                                     made(FX, 1, nil, f),
		"matrix 0 has shape [2], want [_ _]":                   made(FX, 1, rng, NewTensor(2)),
		"matrix 1 has shape [4 2], want [3 _]":                 made(FX, 1, rng, f, x),
		"matrix 1 has shape [4 2], want [_ 4]":                 made(XF, 1, rng, f, x),
		"add up to +Inf, want finite numbers":                  made(XFT, 1, rng, infinite),
		"verify: 2 operands, want 1":                           v.Check(y, x, x),
		"verify: operand 0 has shape [3 2], want [4 _]":        v.Check(y, y),
		"verify: result has shape [3 4], want [3 2]":           v.Check(f, x),
		"verify: result has shape [3], want [3 2]":             v.Check(NewTensor(3), x),
		"verify: result has 1 elements, which are not those":   v.Check(Tensor{[]int{3, 2}, infinite.Data}, x),
		"verifier: matrix 0 has shape [1 1 1], want [_ _]":     VerifyProduct(y, NewTensor(1, 1, 1), x, 1, rng),
		"column 1 differs by 1 in a sum with random signs, ro": v.Check(Tensor{[]int{3, 2}, []float32{0, 1, 0, 0, 0, 0}}, x),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if shape := new(*ShapeError); strings.Contains(want, "has shape") && !errors.As(err, shape) {
			t.Errorf("%q is no ShapeError", err)
		}
	}
}

func BenchmarkVerifier(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][3]int{{512, 512, 64}, {1024, 1024, 64}, {2048, 2048, 64}, {1024, 1024, 256}} {
		f, x := normalMatrix(rng, size[0], size[1]), normalMatrix(rng, size[1], size[2])
		xt := transposed(x)
		y, yt := honest(FX, f, x), honest(XFT, f, xt)
		kept, err := NewVerifier(FX, 1, rng, f)
		if err != nil {
			b.Fatal(err)
		}
		keptT, err := NewVerifier(XFT, 1, rng, f)
		if err != nil {
			b.Fatal(err)
		}
		dims := fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2])
		b.Run("product/"+dims, func(b *testing.B) {
			for b.Loop() {
				kernel.Gemm(nil, false, false, size[0], size[2], size[1], 1, f.Data, size[1], x.Data, size[2], 0, y.Data, size[2])
			}
		})
		for form, check := range map[string]func() error{
			"FX": func() error { return kept.Check(y, x) }, "XFT": func() error { return keptT.Check(yt, xt) },
			"once": func() error { return VerifyProduct(y, f, x, 1, rng) },
		} {
			b.Run(form+"/"+dims, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := check(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
