package kernel

import "math"

// epilogue is what is done to the columns of a matrix while it is transposed.
type epilogue struct {
	bias  []float32 // added, one for each column
	floor float32   // then the least value; minus infinity for none. A NaN stays NaN.
}

var noFloor = float32(math.Inf(-1))

// transposeTo writes the transpose of src, rows x cols with rows lds apart, to
// dst: cols rows of width >= rows entries, ldd apart. The entries after the
// rows-th are zeros. A nil epilogue does nothing.
func (isa *convISA) transposeTo(dst []float32, ldd int, src []float32, lds, rows, cols, width int, e *epilogue) {
	for r := 0; r < width; r += stripRows {
		n := max(0, min(stripRows, rows-r))
		from := src
		if n > 0 {
			from = src[r*lds:]
		}
		isa.transpose(dst[r:], ldd, from, lds, n, cols, min(stripRows, width-r), e)
	}
}

// stripRows is the number of rows that convISA.transpose takes at most.
const stripRows = 16

func transposePortable(dst []float32, ldd int, src []float32, lds, rows, cols, width int, e *epilogue) {
	for c := range cols {
		out := dst[c*ldd:][:width]
		for r := range out {
			var v float32
			if r < rows {
				v = src[r*lds+c]
			}
			if e != nil {
				v = max(v+e.bias[c], e.floor)
			}
			out[r] = v
		}
	}
}

// spreadPortable copies planes of rows x w, one after the other, to dst, where
// rows are pitch and planes plane apart.
func spreadPortable(dst []float32, pitch, plane int, src []float32, w, rows, planes int) {
	for p := range planes {
		for r := range rows {
			copy(dst[p*plane+r*pitch:][:w], src[(p*rows+r)*w:])
		}
	}
}

// sumRowsPortable adds rows as wide as acc, one after the other, to acc.
func sumRowsPortable(acc, src []float32, rows int) {
	w := len(acc)
	for r := range rows {
		for j, v := range src[r*w : (r+1)*w] {
			acc[j] += v
		}
	}
}
