package optim_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/optim"
)

func TestClipLimitsTheNorm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		grad := rapid.SliceOfN(rapid.Float32Range(-10, 10), 1, 50).Draw(rt, "grad")
		limit := rapid.Float64Range(0.01, 100).Draw(rt, "limit")
		cut := rapid.IntRange(0, len(grad)).Draw(rt, "cut")
		before := slices.Clone(grad)
		norm, err := optim.Clip([]optim.Param{{Name: "a", Grad: grad[:cut]}, {Name: "b", Grad: grad[cut:]}}, limit)
		if err != nil {
			rt.Fatal(err)
		}
		var want, after float64
		for i := range grad {
			want += float64(before[i]) * float64(before[i])
			after += float64(grad[i]) * float64(grad[i])
		}
		want, after = math.Sqrt(want), math.Sqrt(after)
		switch {
		case math.Abs(norm-want) > 1e-12*want:
			rt.Fatalf("norm %v, want %v", norm, want)
		case want <= limit-1e-5 && !slices.Equal(grad, before):
			rt.Fatal("gradients within the limit were changed")
		case after > limit*(1+1e-6):
			rt.Fatalf("norm %v after clipping to %v", after, limit)
		}
	})
}

// An optimiser with a ClipNorm does what Clip and an optimiser without it do,
// and leaves the gradients alone.
func TestClipNormIsClip(t *testing.T) {
	grads := [][]float32{{3, -4, 12}, {0.1, 0.2, 0.1}}
	a, b := []float32{1, 2, 3}, []float32{1, 2, 3}
	lr := optim.Constant(0.1)
	clipped := mustSGD(t, optim.SGDConfig{LR: lr, Momentum: 0.9, ClipNorm: 2})
	plain := mustSGD(t, optim.SGDConfig{LR: lr, Momentum: 0.9})
	for i, grad := range grads {
		mine := slices.Clone(grad)
		if err := clipped.Step(i+1, []optim.Param{{Name: "w", Value: a, Grad: mine}}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(mine, grad) {
			t.Error("the gradients were changed")
		}
		p := []optim.Param{{Name: "w", Value: b, Grad: mine}}
		if _, err := optim.Clip(p, 2); err != nil {
			t.Fatal(err)
		}
		if err := plain.Step(i+1, p); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(a, b) {
		t.Errorf("%v, want %v", a, b)
	}
}

// A weight that is trained elsewhere counts for the norm, and its update is scaled by
// what the step was.
func TestClipNormOfRemoteGradients(t *testing.T) {
	lr := optim.Constant(0.1)
	whole := mustSGD(t, optim.SGDConfig{LR: lr, ClipNorm: 2})
	value := []float32{1, 2, 3}
	if err := whole.Step(1, []optim.Param{{Name: "b", Value: value, Grad: []float32{3, -4, 12}}}); err != nil {
		t.Fatal(err)
	}
	parted := mustSGD(t, optim.SGDConfig{LR: lr, ClipNorm: 2})
	update, err := parted.Linear("fc1")
	if err != nil {
		t.Fatal(err)
	}
	here := []float32{1, 2}
	local := optim.Param{Name: "b", Value: here, Grad: []float32{3, -4}}
	if err := parted.Step(1, []optim.Param{{Name: "fc1.weight", Remote: true, SumSquares: 144}, local}); err != nil {
		t.Fatal(err)
	}
	u, err := update(1)
	if err != nil {
		t.Fatal(err)
	}
	if want := optim.ClipScale(169, 2); u.Scale != want || !slices.Equal(here, value[:2]) {
		t.Errorf("scale %v and values %v, want %v and %v", u.Scale, here, want, value[:2])
	}
	if st := parted.State(); len(st.Tensors) > 0 {
		t.Errorf("state %v of a weight that is elsewhere", st)
	}
	if p := []optim.Param{{Name: "fc1.weight", Remote: true, SumSquares: 144}, local}; sumSquares(t, p) != 169 {
		t.Errorf("squares sum to %v, want 169", sumSquares(t, p))
	}

	_, err = update(2)
	wantAll(t, err, "step 2", "clipped", "last step made was 1")
	wantAll(t, parted.Step(2, []optim.Param{local}), "step 2", "clip norm", "fc1.weight", "Remote")
	err = parted.Step(2, []optim.Param{{Name: "fc1.weight", Remote: true, SumSquares: math.NaN()}, local})
	var norm *optim.NormError
	if !errors.As(err, &norm) || norm.Param != "fc1.weight" || !slices.Equal(here, value[:2]) {
		t.Errorf("error %v, values %v", err, here)
	}
}

func sumSquares(t *testing.T, p []optim.Param) float64 {
	t.Helper()
	s, err := optim.SumSquares(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClipRefuses(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		grad := []float32{100, bad}
		p := []optim.Param{{Name: "a", Value: []float32{1}, Grad: []float32{100}}, {Name: "fc.weight", Value: []float32{1, 1}, Grad: grad}}
		var norm *optim.NormError
		_, err := optim.Clip(p, 1)
		if !errors.As(err, &norm) || norm.Param != "fc.weight" || p[0].Grad[0] != 100 || grad[0] != 100 {
			t.Errorf("Clip with %v: %v, gradients %v %v", bad, err, p[0].Grad, grad)
		}
		o := mustSGD(t, optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.9, ClipNorm: 1})
		err = o.Step(7, p)
		if !errors.As(err, &norm) || p[0].Value[0] != 1 || len(o.State().Tensors) > 0 {
			t.Errorf("Step with %v: %v, value %v, state %v", bad, err, p[0].Value, o.State())
		}
		wantAll(t, err, "SGD: step 7", "fc.weight")
	}
	for _, limit := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := optim.Clip(nil, limit); err == nil {
			t.Errorf("limit %v: no error", limit)
		}
	}
}
