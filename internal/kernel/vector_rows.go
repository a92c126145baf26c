package kernel

import "fmt"

// Combine sets dst = w[0]*xs[0] + w[1]*xs[1] + ..., summed in the order of the
// index. Each input is read once. With no inputs dst is set to 0.
func Combine(dst []float32, w []float32, xs [][]float32) {
	combineRows("combine", false, dst, len(dst), w, xs, len(dst), 1, len(dst))
}

// CombineAdd is Combine onto what dst holds: dst = dst + w[0]*xs[0] + ...
func CombineAdd(dst []float32, w []float32, xs [][]float32) {
	combineRows("combine", true, dst, len(dst), w, xs, len(dst), 1, len(dst))
}

// CombineRows is Combine over rows x cols matrices with row strides ldd (of
// dst) and ldx (of each input): it writes a block of a wider matrix.
func CombineRows(dst []float32, ldd int, w []float32, xs [][]float32, ldx, rows, cols int) {
	combineRows("combine rows", false, dst, ldd, w, xs, ldx, rows, cols)
}

// CombineAddRows is CombineRows onto what dst holds.
func CombineAddRows(dst []float32, ldd int, w []float32, xs [][]float32, ldx, rows, cols int) {
	combineRows("combine rows", true, dst, ldd, w, xs, ldx, rows, cols)
}

func combineRows(op string, add bool, dst []float32, ldd int, w []float32, xs [][]float32, ldx, rows, cols int) {
	if len(w) != len(xs) {
		panic(fmt.Sprintf("kernel: %s: %d weights for %d inputs", op, len(w), len(xs)))
	}
	checkBlock(op, "the destination", dst, ldd, rows, cols)
	for i, x := range xs {
		if !blockFits(len(x), ldx, rows, cols) {
			checkBlock(op, fmt.Sprintf("input %d", i), x, ldx, rows, cols)
		}
	}
	for r := range rowsOf(rows, cols) {
		row := dst[r*ldd : r*ldd+cols]
		switch {
		case len(xs) > 0:
			combineVec(add, row, w, xs, r*ldx)
		case !add:
			clear(row)
		}
	}
}

// AddBias adds a bias to each row of a rows x len(bias) matrix with row stride ld.
func AddBias(dst []float32, ld, rows int, bias []float32) {
	checkBlock("add bias", "the destination", dst, ld, rows, len(bias))
	for r := range rowsOf(rows, len(bias)) {
		row := dst[r*ld : r*ld+len(bias)]
		addVec(row, row, bias)
	}
}

// AddBiasReLU is AddBias followed by ReLU, in one pass.
func AddBiasReLU(dst []float32, ld, rows int, bias []float32) {
	checkBlock("add bias and relu", "the destination", dst, ld, rows, len(bias))
	for r := range rowsOf(rows, len(bias)) {
		row := dst[r*ld : r*ld+len(bias)]
		addReLUVec(row, row, bias)
	}
}

// ColumnSums sets dst[j] to the sum of column j of a rows x len(dst) matrix with
// row stride ld: the gradient of a bias. Rows are added one after another in
// blocks of 256, and the blocks one after another, whatever the processor.
func ColumnSums(dst []float32, x []float32, ld, rows int) {
	checkBlock("column sums", "x", x, ld, rows, len(dst))
	clear(dst)
	for r := 0; r < rowsOf(rows, len(dst)); r += sumRows {
		columnSumsVec(dst, x[r*ld:], ld, min(sumRows, rows-r))
	}
}

// rowsOf returns how many rows there are to work on: none if they are empty.
func rowsOf(rows, cols int) int {
	if cols == 0 {
		return 0
	}
	return rows
}

const sumRows = 256

func blockFits(have, ld, rows, cols int) bool {
	if rows <= 0 || cols <= 0 {
		return rows == 0 || cols == 0
	}
	return (ld >= cols || rows == 1) && have >= cols && (rows == 1 || rows-1 <= (have-cols)/ld)
}

func checkBlock(op, name string, x []float32, ld, rows, cols int) {
	if !blockFits(len(x), ld, rows, cols) {
		panic(fmt.Sprintf("kernel: %s: %s has %d elements, too few for %d rows of %d with stride %d", op, name, len(x), rows, cols, ld))
	}
}
