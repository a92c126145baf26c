package kernel_test

import (
	"fmt"

	"github.com/coda-ml/coda/internal/kernel"
)

// A 2 x 2 kernel that takes the difference along the diagonal, over one image
// of 3 x 3, and pooling of what it gives.
func ExampleConvForward() {
	g := kernel.Conv{N: 1, CI: 1, H: 3, W: 3, CO: 1, KH: 2, KW: 2, StrideH: 1, StrideW: 1, DilH: 1, DilW: 1, Groups: 1}
	if err := g.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8, 10}
	y := make([]float32, g.OutLen())
	var ws kernel.Workspace // reused by every call for this layer
	kernel.ConvForward(nil, g, x, []float32{-1, 0, 0, 1}, []float32{0.5}, y, false, &ws)
	fmt.Println(y)

	m := kernel.MaxPool{N: 1, C: 1, H: 2, W: 2, KH: 2, KW: 2, StrideH: 2, StrideW: 2, ReLU: true}
	top, choice := make([]float32, m.OutLen()), make([]uint16, m.OutLen())
	kernel.MaxPoolForward(nil, m, y, top, choice)
	fmt.Println(top, "at", choice)
	// Output:
	// [4.5 4.5 4.5 5.5]
	// [5.5] at [3]
}
