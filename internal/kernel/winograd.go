package kernel

import "math"

// Convolutions with kernels of 3 x 3 and stride 1 between many channels are
// computed by Winograd's minimal filtering F(m x m, 3 x 3) (Lavin and Gray, "Fast
// algorithms for convolutional neural networks", arXiv:1509.09308): tiles of
// m x m results y come from tiles of (m+2) x (m+2) entries d by
//
//	y = A^T ((G w G^T) * (B^T d B)) A
//
// which takes (m+2)^2 products for each pair of channels where the definition takes
// 9 m^2: 16 for 36 with m = 2, 36 for 144 with m = 4. Over many tiles, each of them
// is a matrix product over channels. The gradient of the input is the same with
// flipped weights, that of the weights is
//
//	dw = G^T sum over tiles of ((A dy A^T) * (B^T d B)) G
//
// With m = 2 the matrices have entries 0, 1 and 1/2 only, so integers stay exact, and
// the rounding error is less than that of the definition. With m = 4 the points
// are 0, +-1/sqrt 2, +-sqrt 2 and infinity in place of the usual 0, +-1, +-2 and
// infinity: the entries stay closer to 1 and the rounding error is about twice that of
// the definition, where the usual ones have eight times as much. A NaN or an infinity
// spoils the tiles that it is in: results may be NaN that the definition would leave
// finite.

// winogradMatrix names the matrix P of a product P X P^T.
type winogradMatrix int

const (
	winogradB  winogradMatrix = iota // B^T: entries
	winogradA                        // A^T: results
	winogradAT                       // A: the results' gradient
	winogradG                        // G: weights
	winogradGT                       // G^T: the weights' gradient
	winogradMatrixCount
)

// winogradForm is the algorithm for one size of tiles.
type winogradForm struct {
	index    int // in winogradForms
	tile     int // results on a side of a tile
	side     int // entries on a side
	matrices [winogradMatrixCount][][]float32
	flip     []int // the row of G w for the flipped w
}

// products is the number of matrix products.
func (f *winogradForm) products() int { return f.side * f.side }

// The constants of the matrices with m = 4. The points +-1/sqrt 2 have the weights -2/3
// in A^T, the points +-sqrt 2 the weights 1/3; G is such that a flipped w exchanges
// the rows of a point and its inverse.
const (
	root2  = math.Sqrt2
	half2  = 1 / math.Sqrt2
	inside = -2. / 3
	beyond = 1. / 3
)

var winogradForms = [...]winogradForm{
	{
		index: 0, tile: 2, side: 4,
		matrices: [winogradMatrixCount][][]float32{
			winogradB:  {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
			winogradA:  {{1, 1, 1, 0}, {0, 1, -1, -1}},
			winogradAT: {{1, 0}, {1, 1}, {1, -1}, {0, -1}},
			winogradG:  {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}},
			winogradGT: {{1, .5, .5, 0}, {0, .5, -.5, 0}, {0, .5, .5, 1}},
		},
		flip: []int{3, 1, 2, 0},
	},
	{
		index: 1, tile: 4, side: 6,
		matrices: [winogradMatrixCount][][]float32{
			winogradB: {
				{1, 0, -2.5, 0, 1, 0},
				{0, -root2, -2, half2, 1, 0}, {0, root2, -2, -half2, 1, 0},
				{0, -half2, -.5, root2, 1, 0}, {0, half2, -.5, -root2, 1, 0},
				{0, 1, 0, -2.5, 0, 1},
			},
			winogradA: {
				{1, inside, inside, beyond, beyond, 0},
				{0, inside * half2, -inside * half2, beyond * root2, -beyond * root2, 0},
				{0, inside / 2, inside / 2, beyond * 2, beyond * 2, 0},
				{0, inside * half2 / 2, -inside * half2 / 2, beyond * 2 * root2, -beyond * 2 * root2, 1},
			},
			winogradAT: {
				{1, 0, 0, 0},
				{inside, inside * half2, inside / 2, inside * half2 / 2}, {inside, -inside * half2, inside / 2, -inside * half2 / 2},
				{beyond, beyond * root2, beyond * 2, beyond * 2 * root2}, {beyond, -beyond * root2, beyond * 2, -beyond * 2 * root2},
				{0, 0, 0, 1},
			},
			winogradG:  {{1, 0, 0}, {1, half2, .5}, {1, -half2, .5}, {.5, half2, 1}, {.5, -half2, 1}, {0, 0, 1}},
			winogradGT: {{1, 1, 1, .5, .5, 0}, {0, half2, -half2, half2, -half2, 0}, {0, .5, .5, 1, 1, 1}},
		},
		flip: []int{5, 3, 4, 1, 2, 0},
	},
}

// sandwichLanes is what the number of matrices that a sandwichKernel takes is a multiple of.
const sandwichLanes = 16

// sandwichKernel computes P X P^T for n matrices at a time:
// entry (i,j) of matrix k of src stands at i*srcRow + j*srcCol + k.
type sandwichKernel func(dst *float32, dstRow, dstCol int, src *float32, srcRow, srcCol, n int)

func (isa *convISA) sandwich(form *winogradForm, m winogradMatrix, dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, n int) {
	p := form.matrices[m]
	out, in := len(p), len(p[0])
	_ = dst[(out-1)*(dstRow+dstCol)+n-1]
	_ = src[(in-1)*(srcRow+srcCol)+n-1]
	if f := isa.winograd[form.index][m]; f != nil {
		f(&dst[0], dstRow, dstCol, &src[0], srcRow, srcCol, n)
		return
	}
	sandwichGo(p, dst, dstRow, dstCol, src, srcRow, srcCol, n)
}

func sandwichGo(p [][]float32, dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, n int) {
	const most = 6 // entries on a side
	for k := range n {
		for i, row := range p {
			var t [most]float32
			for c := range row {
				var x [most]float32
				for r := range row {
					x[r] = src[r*srcRow+c*srcCol+k]
				}
				t[c] = combination(row, &x)
			}
			for j, row := range p {
				dst[i*dstRow+j*dstCol+k] = combination(row, &t)
			}
		}
	}
}

// combination returns the sum of c[i]*x[i], the positive terms first.
func combination(c []float32, x *[6]float32) (v float32) {
	first := true
	for i, f := range c {
		if f > 0 && first {
			v, first = float32(f*x[i]), false
		} else if f > 0 {
			v += float32(f * x[i])
		}
	}
	for i, f := range c {
		if f < 0 {
			v -= float32(-f * x[i])
		}
	}
	return v
}

const (
	leastChannels = 16 // of source and result; lines of them are filled up to whole vectors
	leastOfBoth   = 40 // channels together
	leastTiles    = 64 // of 2 x 2 results of the batch
)

// leastWideTiles is the least number of tiles of 4 x 4 results. It is a variable for the
// tests.
var leastWideTiles = 32

// winogradFits tells whether a convolution is computed this way: where the
// channels fill vectors and products, and the tiles outweigh the weights. Since
// the batch counts, an image alone may differ from one in a batch by rounding.
func winogradFits(g Conv) bool {
	return g.KH == 3 && g.KW == 3 && g.StrideH == 1 && g.StrideW == 1 && g.DilH == 1 && g.DilW == 1 && g.Groups == 1 &&
		g.PadH <= 2 && g.PadW <= 2 && min(g.CI, g.CO) >= leastChannels && g.CI+g.CO >= leastOfBoth &&
		winogradForms[0].tiles(g.N, g.OutH(), g.OutW()) >= leastTiles
}

// tiles is the number of tiles of so many planes of h x w.
func (f *winogradForm) tiles(n, h, w int) int { return n * ceilDiv(h, f.tile) * ceilDiv(w, f.tile) }

// winogradFormOf returns the form that takes fewer products for n planes of h x w
// results: large tiles may lie beyond the edges for the most part, and few of them
// do not outweigh the weights, of which they make 36 matrices.
func winogradFormOf(n, h, w int) *winogradForm {
	small, large := &winogradForms[0], &winogradForms[1]
	if t := large.tiles(n, h, w); t < leastWideTiles || t*large.products() >= small.tiles(n, h, w)*small.products() {
		return small
	}
	return large
}
