package coded

// Tensor is a dense float32 array in row-major order: the form in which
// operands, results and shards cross from one part of the system to another.
// The zero value is an empty tensor.
type Tensor struct {
	Shape []int
	Data  []float32
}

// NewTensor returns a tensor of zeros of the given shape.
func NewTensor(shape ...int) Tensor {
	size := 1
	for _, d := range shape {
		size *= d
	}
	return Tensor{Shape: append([]int(nil), shape...), Data: make([]float32, size)}
}
