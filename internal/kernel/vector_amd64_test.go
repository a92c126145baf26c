//go:build !noasm

package kernel

import "testing"

// withVectors runs a test once for each set of vector instructions at hand.
func withVectors(t *testing.T, test func(t *testing.T)) {
	was := vectors
	defer func() { vectors = was }()
	for level, name := range []string{"portable", "AVX2", "AVX-512"} {
		if vectors = simd(level); vectors <= was {
			t.Run(name, test)
		}
	}
}
