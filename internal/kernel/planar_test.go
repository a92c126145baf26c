package kernel

import "testing"

// planarShapes have strides, dilations, odd sizes and every padding, several
// channels and groups, rows shorter and longer than vectors.
var planarShapes = []Conv{
	convShapes["depthwise"],
	convShapes["depthwise, halved"],
	convShapes["depthwise, dilated"],
	square(3, 7, 28, 7, 3, 1, 1, 1, 7),
	square(2, 3, 2, 3, 5, 1, 2, 1, 3),
	square(2, 3, 5, 3, 2, 1, 2, 1, 3), // more padding than the kernel reaches
	square(2, 3, 40, 3, 7, 4, 3, 1, 3),
	square(11, 19, 9, 19, 3, 2, 1, 1, 19), // parts of several channels, the last smaller
	square(1, 2, 1, 2, 1, 2, 0, 1, 2),
	square(2, 3, 21, 5, 7, 2, 3, 1, 1),
	square(2, 3, 33, 2, 1, 2, 0, 1, 1), // phases without taps
	square(2, 4, 17, 6, 3, 2, 1, 1, 2),
	{N: 2, CI: 3, H: 7, W: 35, CO: 4, KH: 3, KW: 2, StrideH: 2, StrideW: 3, PadH: 0, PadW: 1, DilH: 1, DilW: 2, Groups: 1},
	{N: 2, CI: 2, H: 9, W: 18, CO: 3, KH: 2, KW: 4, StrideH: 3, StrideW: 1, PadH: 1, PadW: 3, DilH: 2, DilW: 1, Groups: 1},
}

// Every set of vectors gives the same bits, which with integers are those of
// the definition.
func TestPlanar(t *testing.T) {
	cost := planarCost
	defer func() { planarCost = cost }()
	planarCost = planarCosts["by planes"]
	for _, g := range planarShapes {
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
			if g.depthwise() {
				checkSame(t, "gradient of the weights", d.gotDW, first.gotDW)
				checkSame(t, "gradient of the bias", d.gotDB, first.gotDB)
			}
			rectified, want := make([]float32, len(d.gotY)), make([]float32, len(d.gotY))
			ConvForward(nil, g, d.x, d.w, d.bias, rectified, true, &ws)
			ReLU(want, d.gotY)
			checkSame(t, "output after ReLU", rectified, want)
		})
	}
}

// Rows that are computed in several calls have the same bits.
func TestPlanarRowsInParts(t *testing.T) {
	limit := maxTapSums
	defer func() { maxTapSums = limit }()
	for _, g := range planarShapes {
		maxTapSums = limit
		want, got := randomConvData(g, 6), randomConvData(g, 6)
		want.compute(nil, nil)
		maxTapSums = 1
		got.compute(nil, nil)
		checkSame(t, "output", got.gotY, want.gotY)
		checkSame(t, "gradient of the input", got.gotDX, want.gotDX)
	}
}

// The sums of a large batch are as good as float64 lets them be in parts.
func TestPlanarGradientOfManyImages(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		d := newConvData(square(67, 2, 32, 2, 3, 1, 1, 1, 2), 3)
		d.compute(nil, nil)
		d.check(t, convTolerance)
	})
}

func TestPlanarSameBitsWithThreads(t *testing.T) {
	for _, g := range planarShapes {
		want := randomConvData(g, 4)
		want.compute(nil, nil)
		for threads := 2; threads <= 3; threads++ {
			p := NewPool(threads)
			defer p.Close()
			got := randomConvData(g, 4)
			got.compute(p, nil)
			checkSame(t, "output", got.gotY, want.gotY)
			checkSame(t, "gradient of the input", got.gotDX, want.gotDX)
			checkSame(t, "gradient of the weights", got.gotDW, want.gotDW)
			checkSame(t, "gradient of the bias", got.gotDB, want.gotDB)
		}
	}
}

func TestPlanarFits(t *testing.T) {
	for _, c := range []struct {
		g                 Conv
		forward, backward bool
	}{
		{square(1, 4, 1, 4, 1, 1, 0, 1, 4), true, true},      // depthwise, however small
		{square(64, 1, 28, 32, 3, 1, 1, 1, 1), false, true},  // the first layer of MNIST
		{square(8, 3, 64, 64, 7, 2, 3, 1, 1), false, true},   // of ResNet
		{square(8, 64, 32, 3, 3, 1, 1, 1, 1), true, false},   // an image from features
		{square(8, 64, 1, 3, 1, 1, 0, 1, 1), false, false},   // no columns
		{square(8, 32, 16, 32, 3, 1, 1, 1, 16), true, true},  // groups of two
		{square(8, 64, 16, 64, 3, 1, 1, 1, 2), false, false}, // groups of many
	} {
		if got := planarFits(c.g, false); got != c.forward {
			t.Errorf("%+v: forward by planes: %t, want %t", c.g, got, c.forward)
		}
		if got := planarFits(c.g, true); got != c.backward {
			t.Errorf("%+v: gradient by planes: %t, want %t", c.g, got, c.backward)
		}
	}
}

// Groups of one channel with several results each are not depthwise.
func TestDepthwise(t *testing.T) {
	for _, g := range []Conv{square(1, 4, 5, 8, 3, 1, 1, 1, 4), square(1, 4, 5, 4, 3, 1, 1, 1, 2), square(1, 1, 5, 1, 3, 1, 1, 1, 1)} {
		if g.depthwise() {
			t.Errorf("%+v counts as depthwise", g)
		}
	}
}

// full returns n entries, all the same.
func full(n int, v float32) []float32 {
	x := make([]float32, n)
	fill(x, v)
	return x
}

// The assembly gives the bits of Go for rows of any length, and writes nothing
// beyond them.
func TestTapKernelsSameBits(t *testing.T) {
	const rows, ldx, ldy = 6, 50, 45
	off := []int{3, 0, 7, 51, 20, 9, 13}
	r := newRand(8)
	x, y, w := randomFloats(r, 9*ldx), randomFloats(r, rows*ldy), randomFloats(r, len(off))
	x[ldx+9] = nan
	withVectors(t, func(t *testing.T) {
		for n := 1; n <= 40; n++ {
			for _, rows := range []int{1, rows} {
				for _, floor := range []float32{noFloor, 0} {
					got, want := full(rows*ldy, 7), full(rows*ldy, 7)
					tapSumsVec(got, ldy, x, ldx, w, off, rows, n, 0.5, floor)
					tapSumsGo(want, ldy, x, ldx, w, off, rows, n, 0.5, floor)
					checkSame(t, "sums over taps", got, want)
				}
				got, want := full(tapBlock*tapLanes+1, 0.25), full(tapBlock*tapLanes+1, 0.25)
				tapDotsVec(got, y, ldy, x, ldx, (*[tapBlock]int)(off), rows, n)
				tapDotsGo(want, y, ldy, x, ldx, (*[tapBlock]int)(off), rows, n)
				checkSame(t, "products of taps", got, want)
			}
		}
	})
}

// Columns that were split and joined are where they were, whatever the step and
// the length of a row.
func TestSplitAndJoinColumns(t *testing.T) {
	const rows = 3
	withVectors(t, func(t *testing.T) {
		for n := 1; n <= 70; n++ {
			for step := 2; step <= 3; step++ {
				for first := range 3 {
					width := ceilDiv(first+n, step) + 1
					size := rows * width
					src := randomFloats(newRand(uint64(n)), rows*n)
					pieces, want := full(step*size, 7), full(step*size, 7)
					splitColumns(pieces, width, size, step, first, src, rows, n)
					for i, v := range src {
						j := first + i%n
						want[j%step*size+i/n*width+j/step] = v
					}
					checkSame(t, "columns apart", pieces, want)
					if first > 0 {
						continue
					}
					ld := n + 2
					back := full(rows*ld, 7)
					joinColumns(back, ld, pieces, width, size, step, rows, n)
					for i, v := range back {
						if in := i%ld < n; in && v != src[i/ld*n+i%ld] || !in && v != 7 {
							t.Fatalf("row of %d: entry %d is %g after both", n, i, v)
						}
					}
				}
			}
		}
	})
}
