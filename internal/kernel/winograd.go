package kernel

// Convolutions with kernels of 3 x 3 and stride 1 between many channels are
// computed by Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, "Fast
// algorithms for convolutional neural networks", arXiv:1509.09308): tiles of
// 2 x 2 results y come from tiles of 4 x 4 entries d by
//
//	y = A^T ((G w G^T) * (B^T d B)) A
//
// which takes 16 products for each pair of channels where the definition takes
// 36. Over many tiles, each of the 16 is a matrix product over channels. The
// gradient of the input is the same with flipped weights, that of the weights is
//
//	dw = G^T sum over tiles of ((A dy A^T) * (B^T d B)) G
//
// The matrices have entries 0, 1 and 1/2 only, so integers stay exact, and the
// rounding error is about that of the definition. A NaN or an infinity spoils the
// tiles that it is in: results may be NaN that the definition would leave finite.

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

var winogradMatrices = [winogradMatrixCount][][]float32{
	winogradB:  {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
	winogradA:  {{1, 1, 1, 0}, {0, 1, -1, -1}},
	winogradAT: {{1, 0}, {1, 1}, {1, -1}, {0, -1}},
	winogradG:  {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}},
	winogradGT: {{1, .5, .5, 0}, {0, .5, -.5, 0}, {0, .5, .5, 1}},
}

// sandwichLanes is what the number of matrices that a sandwichKernel takes is a multiple of.
const sandwichLanes = 16

// sandwichKernel computes P X P^T for n matrices at a time:
// entry (i,j) of matrix k of src stands at i*srcRow + j*srcCol + k.
type sandwichKernel func(dst *float32, dstRow, dstCol int, src *float32, srcRow, srcCol, n int)

func (isa *convISA) sandwich(m winogradMatrix, dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, n int) {
	p := winogradMatrices[m]
	out, in := len(p), len(p[0])
	_ = dst[(out-1)*(dstRow+dstCol)+n-1]
	_ = src[(in-1)*(srcRow+srcCol)+n-1]
	if f := isa.winograd[m]; f != nil {
		f(&dst[0], dstRow, dstCol, &src[0], srcRow, srcCol, n)
		return
	}
	sandwichGo(p, dst, dstRow, dstCol, src, srcRow, srcCol, n)
}

func sandwichGo(p [][]float32, dst []float32, dstRow, dstCol int, src []float32, srcRow, srcCol, n int) {
	for k := range n {
		for i, row := range p {
			var t [4]float32
			for c := range row {
				var x [4]float32
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
func combination(c []float32, x *[4]float32) (v float32) {
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
	leastChannels = 24 // of source and result; lines of them are filled up to whole vectors
	leastTiles    = 64 // of the batch
)

// winogradFits tells whether a convolution is computed this way: where the
// channels fill vectors and products, and the tiles outweigh the weights. Since
// the batch counts, an image alone may differ from one in a batch by rounding.
func winogradFits(g Conv) bool {
	return g.KH == 3 && g.KW == 3 && g.StrideH == 1 && g.StrideW == 1 && g.DilH == 1 && g.DilW == 1 && g.Groups == 1 &&
		g.PadH <= 2 && g.PadW <= 2 && min(g.CI, g.CO) >= leastChannels &&
		g.N*ceilDiv(g.OutH(), 2)*ceilDiv(g.OutW(), 2) >= leastTiles
}
