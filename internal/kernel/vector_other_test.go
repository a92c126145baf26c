//go:build !amd64 || noasm

package kernel

import "testing"

func withVectors(t *testing.T, test func(t *testing.T)) { t.Run("portable", test) }
