package exact

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestVerifier: true products pass, and false ones do not, but for one in p.
func TestVerifier(t *testing.T) {
	for _, p := range primes {
		rng := rand.New(rand.NewPCG(1, uint64(p)))
		for range 20 {
			a := drawMatrix(rng, p, rng.IntN(70), rng.IntN(20))
			b := drawMatrix(rng, p, a.Cols, rng.IntN(9))
			c, err := Product(p, a, b)
			if err != nil {
				t.Fatal(err)
			}
			v, err := NewVerifier(p, a, 2, rng)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Check(c, b); err != nil {
				t.Errorf("modulo %d: %v", p, err)
			}
			if len(c.Data) == 0 {
				continue
			}
			at := rng.IntN(len(c.Data))
			c.Data[at] = p.Add(c.Data[at], 1+rng.Uint64N(uint64(p)-1))
			var wrong *VerifyError
			if err := v.Check(c, b); !errors.As(err, &wrong) || wrong.Column != at%c.Cols || wrong.Got == wrong.Want {
				t.Errorf("modulo %d: one element is wrong: %v", p, err)
			}
			if err := VerifyProduct(p, drawMatrix(rng, p, c.Rows, c.Cols), a, b, 2, rng); !errors.As(err, &wrong) {
				t.Errorf("modulo %d: another matrix: %v", p, err)
			}
		}
	}
}

// TestVerifierProbability: modulo 65537, one false result in 65537 passes; so many
// false ones are tried that some do, and no more than chance lets.
func TestVerifierProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	const p, draws = field.Fermat, 200_000
	a, b := drawMatrix(rng, p, 2, 1), drawMatrix(rng, p, 1, 1)
	c, err := Product(p, a, b)
	if err != nil {
		t.Fatal(err)
	}
	c.Data[0], c.Data[1] = p.Add(c.Data[0], 5), p.Sub(c.Data[1], 7)
	passed := 0
	for range draws {
		if VerifyProduct(p, c, a, b, 1, rng) == nil {
			passed++
		}
	}
	want := draws / float64(p)
	if e := math.Abs(float64(passed) - want); passed == 0 || e > 4*math.Sqrt(want) {
		t.Errorf("%d of %d passed, want about %.1f", passed, draws, want)
	}
}

func TestVerifierErrors(t *testing.T) {
	const p = field.Fermat
	rng := rand.New(rand.NewPCG(1, 1))
	a, b, c := NewMatrix(3, 4), NewMatrix(4, 2), NewMatrix(3, 2)
	large := NewMatrix(3, 4)
	large.Data[5] = uint64(p)
	for want, err := range map[string]error{
		"7 is none of the fields":         VerifyProduct(7, c, a, b, 1, rng),
		"0 repetitions, want at least 1":  VerifyProduct(p, c, a, b, 0, rng),
		"no random source":                VerifyProduct(p, c, a, b, 1, nil),
		"verifier: A: element 5 is 65537": VerifyProduct(p, c, large, b, 1, rng),
		"verify: B: element 5 is 65537":   VerifyProduct(p, c, a, large, 1, rng),
		"verify: C: element 5 is 65537":   VerifyProduct(p, large, a, b, 1, rng),
		"A is 3 x 4, B 4 x 2, C 4 x 2":    VerifyProduct(p, b, a, b, 1, rng),
		"A is 3 x 4, B 3 x 2, C 3 x 2":    VerifyProduct(p, c, a, c, 1, rng),
		"verify: C: 0 elements for 3 x 2": VerifyProduct(p, Matrix{Rows: 3, Cols: 2}, a, b, 1, rng),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "exact: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
