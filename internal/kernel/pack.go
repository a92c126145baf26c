package kernel

// A panel is the form in which the micro-kernels read an operand: a strip of
// op(A) some rows high, or of op(B) some columns wide, cut at kc steps of the
// inner dimension. Step p of a panel of the given width is
// dst[p*width : (p+1)*width]: element j of it is op(B)[p0+p, j0+j], or
// op(A)[i0+j, p0+p] for the left operand. Values past the operand's edge are 0.

// matrix is an operand stored as a row-major matrix. inner says that the inner
// dimension runs along its rows: A as it is, B transposed.
type matrix struct {
	data  []float32
	ld    int
	inner bool
}

// pack fills dst[:kc*width] with the panel of the elements j0 .. j0+n-1 of the
// outer dimension (rows of op(A), columns of op(B)) and p0 .. p0+kc-1 of the inner
// one; elements n .. width-1 of each step are set to 0.
func (x *matrix) pack(dst []float32, width, j0, n, p0, kc int) {
	if x.inner {
		packAcross(dst, x.data[j0*x.ld+p0:], x.ld, width, n, kc)
	} else {
		packAlong(dst, x.data[p0*x.ld+j0:], x.ld, width, n, kc)
	}
}

// packAlong copies kc rows of n elements.
func packAlong(dst, src []float32, ld, width, n, kc int) {
	if kc == 0 || packAlongVec(dst, src, ld, width, n, kc) {
		return
	}
	for p := range kc {
		row := dst[p*width : (p+1)*width]
		clear(row[copy(row, src[p*ld:p*ld+n]):])
	}
}

// packAcross transposes n rows of kc elements.
func packAcross(dst, src []float32, ld, width, n, kc int) {
	transpose(dst, src, ld, width, n, kc)
	for j := n; j < width; j++ {
		for at := j; at < kc*width; at += width {
			dst[at] = 0
		}
	}
}

// transpose writes n rows of kc elements as columns of rows that are ldd apart.
func transpose(dst, src []float32, ld, ldd, n, kc int) {
	rows, steps := packAcrossVec(dst, src, ld, ldd, n, kc)
	for j := range n {
		from := 0
		if j < rows {
			from = steps
		}
		at := from*ldd + j
		for _, v := range src[j*ld+from : j*ld+kc] {
			dst[at] = v
			at += ldd
		}
	}
}
