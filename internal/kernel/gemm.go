package kernel

// Gemm computes C = alpha*op(A)*op(B) + beta*C over row-major float32 matrices:
// op(A) is m x k, op(B) is k x n, C is m x n; lda, ldb, ldc are the row strides
// of A, B and C as they are stored. With beta = 0 C is not read.
func Gemm(p *Pool, transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	at := func(x []float32, ld int, t bool, i, j int) float32 {
		if t {
			i, j = j, i
		}
		return x[i*ld+j]
	}
	for i := range m {
		for j := range n {
			var s float32
			for q := range k {
				s += at(a, lda, transA, i, q) * at(b, ldb, transB, q, j)
			}
			if beta == 0 {
				c[i*ldc+j] = alpha * s
			} else {
				c[i*ldc+j] = alpha*s + beta*c[i*ldc+j]
			}
		}
	}
}
