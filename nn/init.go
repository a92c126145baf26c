package nn

import (
	"math"
	"math/rand/v2"
)

// An Init fills a parameter's tensor, given the number of inputs (fan-in) and
// outputs (fan-out) that one of its output units has.
type Init func(rng *rand.Rand, w []float32, fanIn, fanOut int)

// DefaultWeight is PyTorch's default for the weights of Linear and Conv2d:
// kaiming_uniform with a = sqrt(5), that is uniform in ±1/sqrt(fanIn).
func DefaultWeight(rng *rand.Rand, w []float32, fanIn, _ int) {
	uniform(rng, w, 1/math.Sqrt(float64(fanIn)))
}

// DefaultBias is PyTorch's default for biases: uniform in ±1/sqrt(fanIn).
func DefaultBias(rng *rand.Rand, w []float32, fanIn, _ int) {
	uniform(rng, w, 1/math.Sqrt(float64(fanIn)))
}

// GlorotUniform draws from ±sqrt(6/(fanIn+fanOut)) (Glorot and Bengio 2010, eq. 16).
func GlorotUniform(rng *rand.Rand, w []float32, fanIn, fanOut int) {
	uniform(rng, w, math.Sqrt(6/float64(fanIn+fanOut)))
}

// HeNormal draws from a normal distribution of variance 2/fanIn, which keeps
// the variance through a ReLU (He et al. 2015, eq. 10).
func HeNormal(rng *rand.Rand, w []float32, fanIn, _ int) {
	gaussian(rng, w, math.Sqrt(2/float64(fanIn)))
}

// HeNormalOut draws from a normal distribution of variance 2/fanOut, which keeps
// the variance of gradients through a ReLU (He et al. 2015, eq. 14).
func HeNormalOut(rng *rand.Rand, w []float32, _, fanOut int) {
	gaussian(rng, w, math.Sqrt(2/float64(fanOut)))
}

// Zeros sets everything to 0. It draws nothing.
func Zeros(_ *rand.Rand, w []float32, _, _ int) { clear(w) }

// uniform draws from [-bound, bound).
func uniform(rng *rand.Rand, w []float32, bound float64) {
	for i := range w {
		w[i] = float32(bound * (2*rng.Float64() - 1))
	}
}

// Normal returns an Init that draws from a normal distribution of mean 0.
func Normal(deviation float64) Init {
	return func(rng *rand.Rand, w []float32, _, _ int) { gaussian(rng, w, deviation) }
}

func gaussian(rng *rand.Rand, w []float32, deviation float64) {
	for i := range w {
		w[i] = float32(deviation * rng.NormFloat64())
	}
}
