package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// refOther computes one module in float64 from its definition.
func refOther(t *testing.T, m Module, values map[*Param][]float64, x []float64, s []int) ([]float64, []int) {
	t.Helper()
	if f := refFunction(m); f != nil {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = f(v)
		}
		return y, s
	}
	switch m := m.(type) {
	case *BatchNorm:
		return refBatchNorm(m, values, x, s), s
	case *LayerNorm:
		return refLayerNorm(m, values, x), s
	case *Residual:
		y, shape := refChain(t, m.Body, values, x, s)
		short, _ := refChain(t, m.Shortcut, values, x, s)
		sum := make([]float64, len(y))
		for i := range y {
			if sum[i] = y[i] + short[i]; m.ReLU {
				sum[i] = max(sum[i], 0)
			}
		}
		return sum, shape
	case Sequential:
		return refChain(t, m, values, x, s)
	case Concat:
		return refConcat(t, m, values, x, s)
	case AvgPool2d:
		return refAvgPool(m, x, s)
	case GlobalAvgPool2d:
		y, _ := refAdaptive(AdaptiveAvgPool2d{1, 1}, x, s)
		return y, s[:2]
	case AdaptiveAvgPool2d:
		return refAdaptive(m, x, s)
	case Softmax:
		return refSoftmax(x, s[len(s)-1], math.Exp), s
	case LogSoftmax:
		return refSoftmax(x, s[len(s)-1], func(v float64) float64 { return v }), s
	case *masked:
		y := slices.Clone(x)
		for i, v := range m.mask {
			y[i] *= float64(v)
		}
		return y, s
	case *Embedding:
		dim := m.Weight.Value.Shape[1]
		var y []float64
		for _, id := range x {
			y = append(y, values[m.Weight][int(id)*dim:(int(id)+1)*dim]...)
		}
		return y, append(slices.Clone(s), dim)
	}
	t.Fatalf("no reference for %T", m)
	return nil, nil
}

func refFunction(m Module) func(x float64) float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch m := m.(type) {
	case ReLU:
		return func(x float64) float64 { return max(x, 0) }
	case LeakyReLU:
		return func(x float64) float64 { return max(x, 0) + orDefault(m.Slope, 0.01)*min(x, 0) }
	case GELU:
		return func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 }
	case SiLU:
		return func(x float64) float64 { return x * sigmoid(x) }
	case Tanh:
		return math.Tanh
	case Sigmoid:
		return sigmoid
	case Softplus:
		return func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	case ELU:
		return func(x float64) float64 { return max(x, 0) + orDefault(m.Alpha, 1)*math.Expm1(min(x, 0)) }
	case Hardswish:
		return func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }
	}
	return nil
}

// refMoments returns mean and variance of some entries of x.
func refMoments(x []float64, at []int) (mean, variance float64) {
	for _, i := range at {
		mean += x[i] / float64(len(at))
	}
	for _, i := range at {
		variance += (x[i] - mean) * (x[i] - mean) / float64(len(at))
	}
	return mean, variance
}

func refBatchNorm(m *BatchNorm, values map[*Param][]float64, x []float64, s []int) []float64 {
	y, plane := make([]float64, len(x)), size(s[2:])
	for c := range s[1] {
		var at []int
		for n := range s[0] {
			for i := range plane {
				at = append(at, (n*s[1]+c)*plane+i)
			}
		}
		mean, variance := refMoments(x, at)
		if m.Config.Frozen {
			mean, variance = float64(m.RunningMean.Value.Data[c]), float64(m.RunningVar.Value.Data[c])
		}
		scale, shift := 1.0, 0.0
		if m.Weight != nil {
			scale, shift = values[m.Weight][c], values[m.Bias][c]
		}
		for _, i := range at {
			y[i] = scale*(x[i]-mean)/math.Sqrt(variance+orDefault(m.Config.Eps, 1e-5)) + shift
		}
	}
	return y
}

func refLayerNorm(m *LayerNorm, values map[*Param][]float64, x []float64) []float64 {
	y, cols := make([]float64, len(x)), m.Weight.Size()
	for row := 0; row < len(x); row += cols {
		var at []int
		for i := range cols {
			at = append(at, row+i)
		}
		mean, variance := refMoments(x, at)
		for i := range cols {
			y[row+i] = values[m.Weight][i]*(x[row+i]-mean)/math.Sqrt(variance+orDefault(m.Eps, 1e-5)) + values[m.Bias][i]
		}
	}
	return y
}

func refConcat(t *testing.T, m Concat, values map[*Param][]float64, x []float64, s []int) ([]float64, []int) {
	t.Helper()
	var parts [][]float64
	var shape []int
	channels := 0
	for _, branch := range m {
		y, bs := refChain(t, Sequential{branch}, values, x, s)
		parts = append(parts, y)
		shape = slices.Clone(bs)
		channels += bs[1]
	}
	shape[1] = channels
	var y []float64
	for n := range s[0] {
		for _, p := range parts {
			w := len(p) / s[0]
			y = append(y, p[n*w:(n+1)*w]...)
		}
	}
	return y, shape
}

func refAvgPool(m AvgPool2d, x []float64, s []int) ([]float64, []int) {
	stride := m.Stride
	if stride == 0 {
		stride = m.Kernel
	}
	oh, ow := (s[2]+2*m.Padding-m.Kernel)/stride+1, (s[3]+2*m.Padding-m.Kernel)/stride+1
	var y []float64
	for plane := range s[0] * s[1] {
		for i := range oh {
			for j := range ow {
				sum, inside := 0.0, 0
				for r := i*stride - m.Padding; r < i*stride-m.Padding+m.Kernel; r++ {
					for c := j*stride - m.Padding; c < j*stride-m.Padding+m.Kernel; c++ {
						if r >= 0 && r < s[2] && c >= 0 && c < s[3] {
							sum += x[(plane*s[2]+r)*s[3]+c]
							inside++
						}
					}
				}
				if !m.ExcludePad {
					inside = m.Kernel * m.Kernel
				}
				y = append(y, sum/float64(inside))
			}
		}
	}
	return y, []int{s[0], s[1], oh, ow}
}

// refAdaptive averages over the windows that touch an entry of the output when
// both images are laid over each other.
func refAdaptive(m AdaptiveAvgPool2d, x []float64, s []int) ([]float64, []int) {
	touches := func(in, out, size, outSize int) bool { // [in, in+1)/size meets [out, out+1)/outSize
		return in*outSize < (out+1)*size && (in+1)*outSize > out*size
	}
	var y []float64
	for plane := range s[0] * s[1] {
		for i := range m.Height {
			for j := range m.Width {
				sum, count := 0.0, 0.0
				for r := range s[2] {
					for c := range s[3] {
						if touches(r, i, s[2], m.Height) && touches(c, j, s[3], m.Width) {
							sum += x[(plane*s[2]+r)*s[3]+c]
							count++
						}
					}
				}
				y = append(y, sum/count)
			}
		}
	}
	return y, []int{s[0], s[1], m.Height, m.Width}
}

func refSoftmax(x []float64, cols int, of func(log float64) float64) []float64 {
	y := make([]float64, len(x))
	for row := 0; row < len(x); row += cols {
		sum := 0.0
		for _, v := range x[row : row+cols] {
			sum += math.Exp(v)
		}
		for i, v := range x[row : row+cols] {
			y[row+i] = of(v - math.Log(sum))
		}
	}
	return y
}

// normalisedNet has batch normalisations in every fusion (alone, with a ReLU,
// with a residual, with both, frozen, without parameters, of vectors) and a
// layer normalisation.
func normalisedNet() (Sequential, []int) {
	rng := newRand(9)
	same := Conv2dConfig{Padding: 1}
	norm := func(channels int, c BatchNormConfig) *BatchNorm {
		l := NewBatchNorm(channels, c)
		for i := range channels {
			l.RunningMean.Value.Data[i] = float32(rng.NormFloat64()) / 4
			l.RunningVar.Value.Data[i] = 0.5 + rng.Float32()
			if !c.NoAffine {
				l.Weight.Value.Data[i] = 0.5 + rng.Float32()
				l.Bias.Value.Data[i] = float32(rng.NormFloat64())
			}
		}
		return l
	}
	return Sequential{
		norm(2, BatchNormConfig{}), NewConv2d(rng, 2, 3, 3, same, NoBias()), norm(3, BatchNormConfig{Eps: 0.1}), ReLU{},
		&Residual{Body: Sequential{NewConv2d(rng, 3, 3, 3, same), norm(3, BatchNormConfig{})}, ReLU: true},
		&Residual{Body: Sequential{NewConv2d(rng, 3, 3, 3, same), norm(3, BatchNormConfig{NoAffine: true})}},
		&Residual{
			Body:     Sequential{NewConv2d(rng, 3, 4, 3, Conv2dConfig{Padding: 1, Stride: 2}), norm(4, BatchNormConfig{Frozen: true})},
			Shortcut: Sequential{NewConv2d(rng, 3, 4, 1, Conv2dConfig{Stride: 2}, NoBias()), norm(4, BatchNormConfig{})}, ReLU: true,
		},
		norm(4, BatchNormConfig{Frozen: true}), ReLU{}, MaxPool2d{Kernel: 2},
		NewLayerNorm(2, 2),
		Flatten{}, NewLinear(rng, 4*2*2, 6), norm(6, BatchNormConfig{}), NewLinear(rng, 6, 3),
	}, []int{2, 8, 8}
}

// branchingNet has sums, joins and all poolings by averages.
func branchingNet() (Sequential, []int) {
	rng := newRand(10)
	return Sequential{
		NewConv2d(rng, 2, 3, 3, Conv2dConfig{Padding: 1}),
		&Residual{Body: Sequential{NewConv2d(rng, 3, 3, 1, Conv2dConfig{}), Tanh{}}, ReLU: true},
		&Residual{Body: Sequential{NewConv2d(rng, 3, 3, 1, Conv2dConfig{}), Tanh{}}},
		Concat{
			NewConv2d(rng, 3, 2, 1, Conv2dConfig{}),
			Sequential{AvgPool2d{Kernel: 3, Stride: 1, Padding: 1}, ReLU{}},
			AvgPool2d{Kernel: 3, Stride: 1, Padding: 1, ExcludePad: true},
		},
		AvgPool2d{Kernel: 2},
		Concat{
			Sequential{AdaptiveAvgPool2d{Height: 2, Width: 3}, NewConv2d(rng, 8, 2, 1, Conv2dConfig{}), Flatten{}},
			Sequential{AdaptiveAvgPool2d{Height: 5, Width: 4}, NewConv2d(rng, 8, 1, 1, Conv2dConfig{}), Flatten{}},
			GlobalAvgPool2d{},
		},
		NewLinear(rng, 12+20+8, 3),
	}, []int{2, 8, 6}
}

// TestCurvesAreDifferences has every activation, each in a network of its own.
func TestCurvesAreDifferences(t *testing.T) {
	for _, m := range []Module{
		LeakyReLU{}, LeakyReLU{Slope: 0.3}, GELU{}, SiLU{}, Tanh{}, Sigmoid{}, Softplus{}, ELU{}, ELU{Alpha: 0.5}, Hardswish{}, LogSoftmax{}, Softmax{},
	} {
		t.Run(fmt.Sprintf("%T%+v", m, m), func(t *testing.T) {
			rng := newRand(11)
			wide := WeightInit(Normal(1)) // reaches the bends and the tails
			model := Sequential{NewLinear(rng, 7, 8, wide), m, NewLinear(rng, 8, 8, wide), m, NewLinear(rng, 8, 3)}
			testDifferences(t, model, []int{7}, 0)
		})
	}
}

// TestEmbeddingDifferences compares an Embedding, whose input are whole
// numbers, with the reference and its differences.
func TestEmbeddingDifferences(t *testing.T) {
	rng := newRand(12)
	model := Sequential{NewEmbedding(rng, 6, 4), NewLayerNorm(3, 4), Flatten{}, NewLinear(rng, 12, 3)}
	testDifferencesAt(t, model, []int{3}, []float32{0, 5, 5, 2, 1, 0, 4, 4, 4, 1, 2, 5, 0, 0, 1}, 0)
}
