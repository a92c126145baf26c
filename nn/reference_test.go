package nn

import (
	"fmt"
	"math"
	"testing"
)

// reference computes the mean cross entropy of a Sequential in float64, loop
// by loop from the definitions, without any of the package's own arithmetic.
// The parameters are taken from values, so that they can be moved.
func reference(t *testing.T, s Sequential, values map[*Param][]float64, shape []int, x []float32, labels []int32, smoothing float64) float64 {
	t.Helper()
	shape = append([]int{len(labels)}, shape...)
	v := make([]float64, len(x))
	for i := range x {
		v[i] = float64(x[i])
	}
	v, shape = refChain(t, s, values, v, shape)
	return refLoss(v, shape, labels, smoothing)
}

func refChain(t *testing.T, s Sequential, values map[*Param][]float64, v []float64, shape []int) ([]float64, []int) {
	t.Helper()
	for _, m := range s {
		switch m := m.(type) {
		case Flatten:
			shape = []int{shape[0], size(shape[1:])}
		case *Linear:
			v, shape = refLinear(v, shape, values[m.Weight], values[m.Bias], m.Weight.Value.Shape[0])
		case *Conv2d:
			v, shape = refConv(v, shape, values[m.Weight], values[m.Bias], m)
		case MaxPool2d:
			v, shape = refPool(v, shape, m)
		default:
			v, shape = refOther(t, m, values, v, shape)
		}
	}
	return v, shape
}

func refLinear(x []float64, shape []int, w, b []float64, out int) ([]float64, []int) {
	n, in := shape[0], shape[1]
	y := make([]float64, n*out)
	for i := range n {
		for o := range out {
			sum := 0.0
			if b != nil {
				sum = b[o]
			}
			for k := range in {
				sum += x[i*in+k] * w[o*in+k]
			}
			y[i*out+o] = sum
		}
	}
	return y, []int{n, out}
}

func refConv(x []float64, s []int, w, b []float64, m *Conv2d) ([]float64, []int) {
	ws, c := m.Weight.Value.Shape, m.Config
	stride, dilation, groups := max(c.Stride, 1), max(c.Dilation, 1), max(c.Groups, 1)
	co, ci, kh, kw := ws[0], ws[1], ws[2], ws[3] // ci: of a group
	out := func(size, kernel int) int { return (size+2*c.Padding-dilation*(kernel-1)-1)/stride + 1 }
	oh, ow := out(s[2], kh), out(s[3], kw)
	var y []float64
	for n := range s[0] {
		for o := range co {
			first := o / (co / groups) * ci // input channel of the group
			for i := range oh {
				for j := range ow {
					sum := 0.0
					if b != nil {
						sum = b[o]
					}
					for c := range ci {
						for p := range kh {
							for q := range kw {
								r, k := i*stride-m.Config.Padding+p*dilation, j*stride-m.Config.Padding+q*dilation
								if r >= 0 && r < s[2] && k >= 0 && k < s[3] {
									sum += x[((n*s[1]+first+c)*s[2]+r)*s[3]+k] * w[((o*ci+c)*kh+p)*kw+q]
								}
							}
						}
					}
					y = append(y, sum)
				}
			}
		}
	}
	return y, []int{s[0], co, oh, ow}
}

func refPool(x []float64, s []int, m MaxPool2d) ([]float64, []int) {
	k, stride := m.Kernel, m.Stride
	if stride == 0 {
		stride = k
	}
	oh, ow := (s[2]+2*m.Padding-k)/stride+1, (s[3]+2*m.Padding-k)/stride+1
	var y []float64
	for plane := range s[0] * s[1] {
		for i := range oh {
			for j := range ow {
				best := math.Inf(-1)
				for r := max(i*stride-m.Padding, 0); r < min(i*stride-m.Padding+k, s[2]); r++ {
					for c := max(j*stride-m.Padding, 0); c < min(j*stride-m.Padding+k, s[3]); c++ {
						best = max(best, x[(plane*s[2]+r)*s[3]+c])
					}
				}
				y = append(y, best)
			}
		}
	}
	return y, []int{s[0], s[1], oh, ow}
}

func refLoss(x []float64, s []int, labels []int32, smoothing float64) float64 {
	loss, classes := 0.0, s[1]
	for i, label := range labels {
		row := x[i*classes : (i+1)*classes]
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(v)
		}
		for c, v := range row {
			target := smoothing / float64(classes)
			if c == int(label) {
				target += 1 - smoothing
			}
			loss += target * (math.Log(sum) - v)
		}
	}
	return loss / float64(len(labels))
}

// smallNet has every kind of layer, in every fusion that Chain knows: into a
// convolution, into pooling from before and from behind, into a Linear; and a
// ReLU that is left alone.
func smallNet() (Sequential, []int) {
	rng := newRand(5)
	return Sequential{
		NewConv2d(rng, 2, 3, 3, Conv2dConfig{Padding: 1}), ReLU{}, MaxPool2d{Kernel: 2},
		NewConv2d(rng, 3, 4, 2, Conv2dConfig{Padding: 1}), ReLU{},
		NewConv2d(rng, 4, 4, 3, Conv2dConfig{Stride: 1, Padding: 1}), MaxPool2d{Kernel: 2}, ReLU{},
		Flatten{}, ReLU{},
		NewLinear(rng, 16, 6, NoBias()), ReLU{}, NewLinear(rng, 6, 3),
	}, []int{2, 8, 6}
}

// oddNet has every setting of the layers that smallNet leaves alone.
func oddNet() (Sequential, []int) {
	rng := newRand(7)
	return Sequential{
		NewConv2d(rng, 4, 6, 3, Conv2dConfig{Stride: 2, Padding: 2, Dilation: 2, Groups: 2}),
		MaxPool2d{Kernel: 3, Stride: 2, Padding: 1}, ReLU{},
		NewConv2d(rng, 6, 3, 2, Conv2dConfig{Groups: 3}, NoBias()), ReLU{}, MaxPool2d{Kernel: 2, Stride: 1},
		Flatten{}, NewLinear(rng, 3*2*1, 3),
	}, []int{4, 13, 11}
}

// TestGradientsAreDifferences compares the loss and all gradients of whole
// networks with the float64 reference and its central differences.
func TestGradientsAreDifferences(t *testing.T) {
	for name, build := range map[string]func() (Sequential, []int){
		"small": smallNet, "odd": oddNet, "normalised": normalisedNet, "branching": branchingNet,
	} {
		for _, smoothing := range []float64{0, 0.2} {
			t.Run(fmt.Sprintf("%s/smoothing=%v", name, smoothing), func(t *testing.T) {
				model, shape := build()
				testDifferences(t, model, shape, smoothing)
			})
		}
	}
}

func testDifferences(t *testing.T, model Sequential, shape []int, smoothing float64) {
	testDifferencesAt(t, model, shape, normals(newRand(6), 5*size(shape)), smoothing)
}

// testDifferencesAt compares at a batch of 5.
func testDifferencesAt(t *testing.T, model Sequential, shape []int, x []float32, smoothing float64) {
	net := newNetwork(t, model, shape, Config{Threads: 2, Loss: CrossEntropy{Smoothing: smoothing}})
	labels := []int32{0, 2, 1, 1, 0}
	loss, _, err := net.Train(t.Context(), 1, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[*Param][]float64)
	for _, p := range net.Params() {
		for _, v := range p.Value.Data {
			values[p.Param] = append(values[p.Param], float64(v))
		}
	}
	at := func() float64 { return reference(t, model, values, shape, x, labels, smoothing) }
	if want := at(); math.Abs(loss-want) > 1e-6*want {
		t.Errorf("loss %v, want %v", loss, want)
	}
	const h = 1e-5
	wants := make(map[string][]float32)
	largest := 0.0 // in all gradients
	for _, p := range net.Params() {
		v := values[p.Param]
		want := make([]float32, len(v))
		for i, old := range v {
			v[i] = old + h
			up := at()
			v[i] = old - h
			down := at()
			v[i] = old
			want[i] = float32((up - down) / (2 * h))
			largest = max(largest, math.Abs(float64(want[i])))
		}
		wants[p.Name] = want
	}
	for _, p := range net.Params() {
		// A gradient may be 0 because a normalisation undoes the parameter: what
		// is left of it is rounding of what has been cancelled.
		wantCloseTo(t, "gradient of "+p.Name, p.Grad, wants[p.Name], 1e-5, largest/10)
	}
}
