package nn

import "github.com/coda-ml/coda/internal/kernel"

// block is how many numbers of an element-wise operation make a part of work:
// large enough to pay for handing it over, small enough for a cache.
const block = 1 << 15

// blocks calls f for consecutive ranges that cover n elements, on the pool.
func blocks(p *kernel.Pool, n int, f func(from, to int)) {
	if n <= block {
		f(0, n)
		return
	}
	p.Run((n+block-1)/block, func(i int) { f(i*block, min((i+1)*block, n)) })
}

// addTo adds x to dst.
func addTo(p *kernel.Pool, dst, x []float32) {
	blocks(p, len(dst), func(i, j int) { kernel.Add(dst[i:j], dst[i:j], x[i:j]) })
}

// addBias adds a bias to each row of y, followed by a ReLU if asked; without a
// bias (nil) it is the ReLU alone.
func addBias(p *kernel.Pool, y, bias []float32, relu bool) {
	switch cols := len(bias); {
	case bias == nil && relu:
		blocks(p, len(y), func(i, j int) { kernel.ReLU(y[i:j], y[i:j]) })
	case bias == nil:
	case relu:
		kernel.AddBiasReLU(y, cols, len(y)/cols, bias)
	default:
		kernel.AddBias(y, cols, len(y)/cols, bias)
	}
}
