package coded_test

import (
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/codetest"
)

// TestConformance holds every family against the laws of codes.
func TestConformance(t *testing.T) { codetest.Catalogue(t) }

// TestTrigonometricSizes: the default code, at every size up to 8 tasks.
func TestTrigonometricSizes(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for k := 1; k <= n; k++ {
			spec := coded.Spec{Name: "trigonometric", N: n, K: k}
			t.Run(spec.String(), func(t *testing.T) {
				c, err := coded.New(spec)
				if err != nil {
					t.Fatal(err)
				}
				codetest.Test(t, c, rand.New(rand.NewPCG(uint64(n), uint64(k))))
			})
		}
	}
}
