// Command conv writes the assembly of the convolution kernels.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

// shape is a register tile: runs of members in each of some groups.
type shape struct{ members, groups int }

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, s := range []shape{{7, 2}, {5, 2}, {4, 3}, {3, 4}} {
		sweep(avx512, s, 2)
		sweep(avx512, s, 1)
	}
	for _, s := range []shape{{3, 2}, {2, 3}} {
		sweep(avx2, s, 2)
		sweep(avx2, s, 1)
	}
	transpose(false)
	transpose(true)
	spread()
	sumRows()
	maxPool()
	maxPoolBackward()
	winograd()
	wideWinograd()
	Generate()
}
