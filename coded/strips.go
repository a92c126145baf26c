package coded

import "fmt"

// Strips cuts the rows of a convolution's input into K strips of equal size that
// overlap where the kernel reaches into the neighbour, so that the convolution of
// strip j gives exactly the rows of output block j. A convolution is linear in
// its input: that of a coded strip is the coded output block, and any one-sided
// code serves (coded convolution; CoCoI, and the partitions of FCDCC).
//
//	s, err := coded.NewStrips(x.Shape[2], 3, 1, code.K()) // 3 rows of the kernel, stride 1
//	err = coded.EncodeStrips(f, code.Row(slot), x, s)     // [n, c, s.Rows, w]
//	// a worker convolves f without padding: [n, o, s.Out.Size, w']
//	// coded.DecodeColumns over results seen as [n*o, s.Out.Size, w'] gives the output
//
// The rows that overlap are sent twice: (kernel - stride)(K-1) of them.
//
// J. Tan et al., Fully coded distributed convolution, 2024; H. Huang et al., CoCoI,
// 2025.
type Strips struct {
	In     int       // rows of the input, padding included
	Kernel int       // rows of the kernel, dilation included
	Stride int       // rows
	Out    Partition // of the output's rows
	Rows   int       // of a strip: those that a block of output rows needs
}

// NewStrips cuts an input of in rows, which already has its padding, for a kernel
// that covers so many rows.
func NewStrips(in, kernel, stride, k int) (Strips, error) {
	if kernel < 1 || stride < 1 || in < kernel || k < 1 {
		return Strips{}, fmt.Errorf("coded: strips: %d rows, kernel of %d, stride %d, %d strips: want at least 1 of each and the kernel inside", in, kernel, stride, k)
	}
	out := Blocks((in-kernel)/stride+1, k)
	return Strips{In: in, Kernel: kernel, Stride: stride, Out: out, Rows: (out.Size-1)*stride + kernel}, nil
}

// Bounds returns which rows of the input strip j has: [lo,hi). A strip at or
// beyond the end has fewer than Rows, or none, and counts as padded with zeros.
func (s Strips) Bounds(j int) (lo, hi int) {
	lo = min(j*s.Out.Size*s.Stride, s.In)
	return lo, min(lo+s.Rows, s.In)
}

// EncodeStrips computes one coded strip of x: dst = sum_j row[j] * x[.., strip j, ..].
// x has the shape [n, c, s.In, w] and dst [n, c, s.Rows, w].
func EncodeStrips(dst Tensor, row []float64, x Tensor, s Strips) error {
	if len(x.Shape) != 4 || x.Shape[2] != s.In || !filled(x.Shape, len(x.Data)) {
		return shapeError("encode strips: the whole", x, []int{-1, -1, s.In, -1}, "")
	}
	if len(row) != s.Out.K {
		return fmt.Errorf("coded: encode strips: %d coefficients, want %d", len(row), s.Out.K)
	}
	if !fits(dst, x.Shape, 2) || dst.Shape[2] != s.Rows {
		return shapeError("encode strips: result", dst, withSize(x.Shape, 2, s.Rows), "")
	}
	t := newSums()
	defer t.free()
	width := x.Shape[3]
	t.dst.add(dst.Data, s.Rows*width)
	t.rows = append(t.rows, row)
	for j := range row {
		lo, hi := s.Bounds(j)
		t.xs.add(x.Data[min(lo*width, len(x.Data)):], (hi-lo)*width)
	}
	t.compute(nil, x.Shape[0]*x.Shape[1], s.Rows*width, s.In*width)
	return nil
}
