package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// asType gives the error of the type T in a chain, and whether there is one.
func asType[T error](err error) (found T, ok bool) {
	ok = errors.As(err, &found)
	return found, ok
}

// TestErrorsHaveNumbers: whatever is wrong with what a caller or a worker gives, the
// error is of a type that tells what, and nothing panics.
func TestErrorsHaveNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := mustCode(t, "trigonometric", 6, 4)
	decoder := NewDecoder(c, DecoderConfig{})
	weights := func(have ...int) error {
		_, err := decoder.Weights(have)
		return err
	}
	spec := func(s Spec) error {
		_, err := New(s)
		return err
	}
	given := answers(t, c, rng, 2)
	w, err := decoder.Weights([]int{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	results := []Tensor{given[0].Results[0], given[1].Results[0], given[2].Results[0], given[3].Results[0]}
	decode := func(change func([]Tensor)) error {
		some := slices.Clone(results)
		change(some)
		return DecodeRows(NewTensor(8, 2), w.D, some, Blocks(8, 4), 0)
	}
	// NaN in so many results.
	screen := func(broken int) error {
		bad := lied(given, []int{5, 4, 3}[:broken], func(_ int, x Tensor) { x.Data[2] = float32(math.NaN()) })
		_, err := decoder.Screen(bad, CheckFinite)
		return err
	}
	for _, test := range []struct {
		what string
		err  error
		want error
	}{
		{"n < k", spec(Spec{Name: "trigonometric", N: 3, K: 4}),
			&SpecError{Spec{Name: "trigonometric", N: 3, K: 4}, "n must be at least k"}},
		{"k = 0", spec(Spec{Name: "trigonometric", N: 3}), &SpecError{Spec{Name: "trigonometric", N: 3}, "k must be at least 1"}},
		{"n = 0", spec(Spec{Name: "trigonometric", K: 1}), &SpecError{Spec{Name: "trigonometric", K: 1}, "n must be 1 to 4096"}},
		{"a worker twice", weights(0, 3, 3, 1), &TaskError{Code: "trigonometric (6,4)", Task: 3, Tasks: 6, Twice: true}},
		{"a worker beyond", weights(0, 1, 2, 6), &TaskError{Code: "trigonometric (6,4)", Task: 6, Tasks: 6}},
		{"a worker below", weights(-1, 1, 2, 3), &TaskError{Code: "trigonometric (6,4)", Task: -1, Tasks: 6}},
		{"a result of another shape", decode(func(r []Tensor) { r[2] = NewTensor(2, 3) }),
			&ShapeError{What: "decode rows: result 2", Got: []int{2, 3}, Elements: 6, Want: []int{2, 2}}},
		{"a result cut off", decode(func(r []Tensor) { r[0].Data = r[0].Data[:3] }),
			&ShapeError{What: "decode rows: result 0", Got: []int{2, 2}, Elements: 3, Want: []int{-1, 2}}},
		{"no result", decode(func(r []Tensor) { r[1] = Tensor{} }),
			&ShapeError{What: "decode rows: result 1", Want: []int{2, 2}}},
		{"NaN where none is left over", screen(3), &ResultError{Task: 3, Result: 0, Index: 2, Value: float32(math.NaN())}},
		{"too many failures", screen(3), &InsufficientError{Code: "trigonometric (6,4)", Have: []int{0, 1, 2}, Threshold: 4,
			Missing: []int{0, 1, 2}, Outputs: 4, Residual: 0.25}},
		{"not enough", weights(1, 2), &InsufficientError{Code: "trigonometric (6,4)", Have: []int{1, 2}, Threshold: 4,
			Missing: []int{0, 1, 2, 3}, Outputs: 4, Residual: 0.5}},
	} {
		found := reflect.New(reflect.TypeOf(test.want))
		if !errors.As(test.err, found.Interface()) {
			t.Errorf("%s: %v is no %T", test.what, test.err, test.want)
			continue
		}
		if got := found.Elem().Interface().(error); got.Error() != test.want.Error() {
			t.Errorf("%s: %+v, want %+v", test.what, got, test.want)
		}
	}
	if err := screen(2); err != nil {
		t.Errorf("as many failures as the code bears: %v", err)
	}
}

func TestCheckFinite(t *testing.T) {
	x := NewTensor(70)
	for i := range x.Data {
		x.Data[i] = math.MaxFloat32 // whose squares are no float32
	}
	ok := TaskResults{Task: 3, Results: []Tensor{{}, NewTensor(5), x}}
	if err := CheckFinite(ok); err != nil {
		t.Error(err)
	}
	x.Data[66], x.Data[68] = float32(math.Inf(-1)), float32(math.NaN())
	if e, found := asType[*ResultError](CheckFinite(ok)); !found || *e != (ResultError{Task: 3, Result: 2, Index: 66, Value: x.Data[66]}) {
		t.Errorf("%+v", e)
	}
	if err := CheckFinite(ok); err.Error() != "task 3: result 2 has the value -Inf at index 66, want finite numbers" {
		t.Error(err)
	}
}

// TestScreenByFreivalds: with verifiers as many liars are borne as failures.
func TestScreenByFreivalds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := mustCode(t, "trigonometric", 7, 4)
	w, x := normalMatrix(rng, 16, 5), normalMatrix(rng, 5, 6)
	rows := Blocks(16, 4)
	var given []TaskResults
	var verifiers []*Verifier
	for slot := range c.N() {
		f := NewTensor(rows.Size, 5)
		if err := EncodeRows(f, c.Row(slot), w, rows); err != nil {
			t.Fatal(err)
		}
		v, err := NewVerifier(FX, 8, rng, f)
		if err != nil {
			t.Fatal(err)
		}
		verifiers = append(verifiers, v)
		given = append(given, TaskResults{slot, []Tensor{honest(FX, f, x)}})
	}
	check := func(r TaskResults) error { return verifiers[r.Task].Check(r.Results[0], x) }
	decoder := NewDecoder(c, DecoderConfig{})
	want := honest(FX, w, x)
	for size := range 4 {
		err := eachSubset(7, size, func(liars []int) error {
			s, err := decoder.Screen(lied(given, liars, addNoise(rng, 0.1)), CheckShape(4, 6), check)
			if err != nil {
				return err
			}
			var named []int
			for _, r := range s.Rejected {
				named = append(named, r.Task)
			}
			if !slices.Equal(named, liars) {
				t.Errorf("%v lied, %v were rejected", liars, named)
			}
			y := NewTensor(16, 6)
			if err := DecodeRows(y, s.Weights.D, s.Results, rows, 0); err != nil {
				return err
			}
			for i, v := range y.Data {
				if math.Abs(float64(v-want.Data[i])) > 1e-4 {
					t.Fatalf("%v lied: element %d is %g, want %g", liars, i, v, want.Data[i])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := decoder.Screen(lied(given, []int{0, 2, 4, 6}, addNoise(rng, 0.1)), check)
	rejected, ok := asType[*RejectedError](err)
	if !ok || !errors.Is(err, ErrTooFewResults) || rejected.Given != 7 || len(rejected.Rejected) != 4 || !errors.As(err, new(*VerifyError)) {
		t.Errorf("four liars: %v", err)
	}
	if s == nil || s.Weights == nil || !slices.Equal(s.Weights.Have, []int{1, 3, 5}) {
		t.Errorf("four liars: %+v", s)
	}
	if want := "trigonometric (7,4): 4 of 7 tasks rejected: task 0: the result is not the product: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestScreenErrors(t *testing.T) {
	c := mustCode(t, "trigonometric", 4, 2)
	decoder := NewDecoder(c, DecoderConfig{})
	one := []Tensor{NewTensor(2)}
	if s, err := decoder.Screen([]TaskResults{{1, one}, {1, one}}); s != nil || err == nil || err.Error() != "coded: screen: trigonometric (4,2): task 1 is listed twice" {
		t.Errorf("%+v, error %v", s, err)
	}
	s, err := decoder.Screen([]TaskResults{{2, one}, {0, nil}, {1, one}, {3, []Tensor{NewTensor(3)}}}, CheckShape(2))
	if err != nil || len(s.Rejected) != 2 || len(s.Results) != 2 {
		t.Fatalf("%+v, error %v", s, err)
	}
	if s.Rejected[0].String() != "task 0: 0 results, want 1" || s.Rejected[1].String() != "task 3: coded: task 3: result 0 has shape [3], want [2]" {
		t.Errorf("%v", s.Rejected)
	}
	if _, err := decoder.Screen([]TaskResults{{2, one}}); !errors.As(err, new(*InsufficientError)) || errors.As(err, new(*RejectedError)) {
		t.Errorf("one of two: %v", err)
	}
	_, err = NewDecoder(c, DecoderConfig{MaxCond: 1}).Screen([]TaskResults{{2, one}, {0, nil}, {1, one}})
	if !errors.As(err, new(*RejectedError)) || !errors.Is(err, ErrIllConditioned) {
		t.Errorf("with a limit of 1: %v", err)
	}
}
