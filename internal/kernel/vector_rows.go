package kernel

import "fmt"

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
