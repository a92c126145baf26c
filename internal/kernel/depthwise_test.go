package kernel

import "testing"

var depthwiseShapes = []Conv{
	convShapes["depthwise"],
	convShapes["depthwise, halved"],
	convShapes["depthwise, dilated"],
	square(3, 7, 28, 7, 3, 1, 1, 1, 7),
	square(2, 3, 2, 3, 5, 1, 2, 1, 3),
	square(2, 3, 5, 3, 2, 1, 2, 1, 3), // more padding than the gradient can undo by a convolution
	square(2, 3, 40, 3, 7, 4, 3, 1, 3),
}

// Every set of vectors gives the same bits, which with integers are those of
// the definition.
func TestDepthwise(t *testing.T) {
	for i, g := range depthwiseShapes {
		if !g.depthwise() {
			t.Fatalf("shape %d is not depthwise", i)
		}
		var first *convData
		withVectors(t, func(t *testing.T) {
			var ws Workspace
			exact := newExactConvData(g, 2)
			exact.compute(nil, &ws)
			exact.check(t, 0)
			d := randomConvData(g, 9)
			d.compute(nil, &ws)
			if first == nil {
				first = d
			}
			checkSame(t, "output", d.gotY, first.gotY)
			checkSame(t, "gradient of the input", d.gotDX, first.gotDX)
			checkSame(t, "gradient of the weights", d.gotDW, first.gotDW)
			checkSame(t, "gradient of the bias", d.gotDB, first.gotDB)
			rectified, want := make([]float32, len(d.gotY)), make([]float32, len(d.gotY))
			ConvForward(nil, g, d.x, d.w, d.bias, rectified, true, &ws)
			ReLU(want, d.gotY)
			checkSame(t, "output after ReLU", rectified, want)
		})
	}
}

// Groups of one channel with several results each are not depthwise.
func TestDepthwiseFits(t *testing.T) {
	for _, g := range []Conv{square(1, 4, 5, 8, 3, 1, 1, 1, 4), square(1, 4, 5, 4, 3, 1, 1, 1, 2), square(1, 1, 5, 1, 3, 1, 1, 1, 1)} {
		if g.depthwise() {
			t.Errorf("%+v counts as depthwise", g)
		}
	}
}
