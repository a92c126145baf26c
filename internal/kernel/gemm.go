package kernel

import "fmt"

// Gemm computes C = alpha*op(A)*op(B) + beta*C over row-major float32 matrices:
// op(A) is m x k, op(B) is k x n, C is m x n; lda, ldb, ldc are the row strides
// of A, B and C as they are stored. With beta = 0 C is not read, with alpha = 0
// or k = 0 neither A nor B is. C must not overlap A or B. A slice that is too
// short or a stride that is too small panics before anything is written.
//
// Each element is summed over k in an order that depends on k alone, so the
// result does not depend on the number of threads, and rows of A or columns of
// B give the same bits alone as among others.
func Gemm(p *Pool, transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	checkSizes(m, n, k)
	checkMatrix("C", m, n, c, ldc)
	if alpha == 0 || k == 0 {
		scaleRows(m, n, beta, c, ldc)
		return
	}
	checkOperand("A", transA, m, k, a, lda)
	checkOperand("B", transB, k, n, b, ldb)
	if m == 0 || n == 0 {
		return
	}
	g := gemms.get()
	defer g.release()
	g.m, g.n, g.k = m, n, k
	g.alpha, g.beta, g.c, g.ldc = alpha, beta, c, ldc
	g.a, g.b = matrix{a, lda, !transA}, matrix{b, ldb, transB}
	if g.turns(p.Threads()) {
		g.turn(p)
		return
	}
	g.run(p)
}

// release drops what the product refers to and keeps its memory for the next.
func (g *gemm) release() {
	*g = gemm{shared: g.shared, turned: g.turned}
	gemms.put(g)
}

func scaleRows(m, n int, beta float32, c []float32, ldc int) {
	if beta == 1 || n == 0 {
		return
	}
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		if beta == 0 {
			clear(row)
			continue
		}
		Scale(row, beta, row)
	}
}

func checkSizes(m, n, k int) {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("kernel: gemm: negative size: m=%d n=%d k=%d", m, n, k))
	}
}

func checkOperand(name string, trans bool, rows, cols int, x []float32, ld int) {
	if trans {
		rows, cols = cols, rows
	}
	checkMatrix(name, rows, cols, x, ld)
}

// checkMatrix panics unless x holds rows x cols elements with a row stride of ld.
func checkMatrix(name string, rows, cols int, x []float32, ld int) {
	if ld < max(cols, 1) {
		panic(fmt.Sprintf("kernel: gemm: %s is %dx%d but its row stride is %d", name, rows, cols, ld))
	}
	if rows == 0 || cols == 0 {
		return
	}
	// Compared by division: (rows-1)*ld may not fit in an int.
	if have := len(x) - cols; have < 0 || (rows-1) > have/ld {
		panic(fmt.Sprintf("kernel: gemm: %s is %dx%d with row stride %d but has only %d elements", name, rows, cols, ld, len(x)))
	}
}
