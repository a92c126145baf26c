// Package kernel holds the float32 kernels of Coda: products, convolution, pooling, element-wise functions and sums.
package kernel
