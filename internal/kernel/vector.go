package kernel

import "fmt"

// The element-wise kernels round every product and every sum on its own (no
// fused multiply-add), so they give the same bits on every processor. Their
// operands have equal lengths, else they panic; dst may be one of the inputs
// but must not overlap one otherwise.

// Add sets dst = a + b.
func Add(dst, a, b []float32) {
	checkLen("add", "a", len(dst), len(a))
	checkLen("add", "b", len(dst), len(b))
	if len(dst) > 0 {
		addVec(dst, a, b)
	}
}

// Scale sets dst = alpha * x.
func Scale(dst []float32, alpha float32, x []float32) {
	checkLen("scale", "x", len(dst), len(x))
	if len(dst) > 0 {
		scaleVec(dst, alpha, x)
	}
}

// Axpy sets dst = dst + alpha*x.
func Axpy(dst []float32, alpha float32, x []float32) {
	checkLen("axpy", "x", len(dst), len(x))
	if len(dst) > 0 {
		axpyVec(dst, alpha, x)
	}
}

// ReLU sets dst = max(x, 0); a NaN stays a NaN.
func ReLU(dst, x []float32) {
	checkLen("relu", "x", len(dst), len(x))
	if len(dst) > 0 {
		reluVec(dst, x)
	}
}

// ReLUBackward sets dx = dy where y > 0, else 0, for y = ReLU(x); where y is
// NaN, dx = dy.
func ReLUBackward(dx, dy, y []float32) {
	checkLen("relu backward", "dy", len(dx), len(dy))
	checkLen("relu backward", "y", len(dx), len(y))
	if len(dx) > 0 {
		reluBackwardVec(dx, dy, y)
	}
}

func checkLen(op, name string, want, got int) {
	if want != got {
		panic(fmt.Sprintf("kernel: %s: %s has %d elements, the destination has %d", op, name, got, want))
	}
}
