package main

import (
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/codetest"
)

// TestParity: the suite finds the new code in the catalogue and holds it against
// every law.
func TestParity(t *testing.T) {
	if err := coded.Register(parity); err != nil {
		t.Fatal(err)
	}
	codetest.Catalogue(t, "parity")
}
