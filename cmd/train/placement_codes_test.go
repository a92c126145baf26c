package main

import (
	"testing"

	"github.com/coda-ml/coda/coded"
)

// What the help offers for the shards of a layer has a row for each of them, at any size.
func TestPlacementCodesHaveRows(t *testing.T) {
	for _, name := range placementCodes() {
		k := 3
		if name == "uncoded" {
			k = 6
		}
		code, err := coded.New(coded.Spec{Name: name, N: 6, K: k})
		if err != nil {
			t.Error(err)
		} else if code.Row(0) == nil {
			t.Errorf("%v has no row for a slot", code)
		}
	}
}
