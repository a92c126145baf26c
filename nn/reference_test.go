package nn

import (
	"math"
	"testing"
)

// reference computes the mean cross entropy of a Sequential in float64, loop
// by loop from the definitions, without any of the package's own arithmetic.
// The parameters are taken from values, so that they can be moved.
func reference(t *testing.T, s Sequential, values map[*Param][]float64, shape []int, x []float32, labels []int32) float64 {
	t.Helper()
	shape = append([]int{len(labels)}, shape...)
	v := make([]float64, len(x))
	for i := range x {
		v[i] = float64(x[i])
	}
	for _, m := range s {
		switch m := m.(type) {
		case ReLU:
			for i := range v {
				v[i] = max(v[i], 0)
			}
		case Flatten:
			shape = []int{shape[0], size(shape[1:])}
		case *Linear:
			v, shape = refLinear(v, shape, values[m.Weight], values[m.Bias], m.Weight.Value.Shape[0])
		case *Conv2d:
			v, shape = refConv(v, shape, values[m.Weight], values[m.Bias], m)
		case MaxPool2d:
			v, shape = refPool(v, shape, m)
		default:
			t.Fatalf("no reference for %T", m)
		}
	}
	return refLoss(v, shape, labels)
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
	ws, stride, pad := m.Weight.Value.Shape, max(m.Config.Stride, 1), m.Config.Padding
	co, ci, kh, kw := ws[0], ws[1], ws[2], ws[3]
	oh, ow := (s[2]+2*pad-kh)/stride+1, (s[3]+2*pad-kw)/stride+1
	var y []float64
	for n := range s[0] {
		for o := range co {
			for i := range oh {
				for j := range ow {
					sum := b[o]
					for c := range ci {
						for p := range kh {
							for q := range kw {
								r, k := i*stride-pad+p, j*stride-pad+q
								if r >= 0 && r < s[2] && k >= 0 && k < s[3] {
									sum += x[((n*s[1]+c)*s[2]+r)*s[3]+k] * w[((o*ci+c)*kh+p)*kw+q]
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
	k := m.Kernel // without padding, stride k
	oh, ow := s[2]/k, s[3]/k
	var y []float64
	for plane := range s[0] * s[1] {
		for i := range oh {
			for j := range ow {
				best := math.Inf(-1)
				for p := range k {
					for q := range k {
						best = max(best, x[(plane*s[2]+i*k+p)*s[3]+j*k+q])
					}
				}
				y = append(y, best)
			}
		}
	}
	return y, []int{s[0], s[1], oh, ow}
}

func refLoss(x []float64, s []int, labels []int32) float64 {
	loss := 0.0
	for i, label := range labels {
		row := x[i*s[1] : (i+1)*s[1]]
		sum := 0.0
		for _, v := range row {
			sum += math.Exp(v)
		}
		loss += math.Log(sum) - row[label]
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

// TestGradientsAreDifferences compares the loss and all gradients of a whole
// network with the float64 reference and its central differences.
func TestGradientsAreDifferences(t *testing.T) {
	model, shape := smallNet()
	net := newNetwork(t, model, shape, Config{Threads: 2})
	labels := []int32{0, 2, 1, 1, 0}
	x := normals(newRand(6), len(labels)*size(shape))
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
	if want := reference(t, model, values, shape, x, labels); math.Abs(loss-want) > 1e-6*want {
		t.Errorf("loss %v, want %v", loss, want)
	}
	const h = 1e-5
	for _, p := range net.Params() {
		v := values[p.Param]
		want := make([]float32, len(v))
		for i, at := range v {
			v[i] = at + h
			up := reference(t, model, values, shape, x, labels)
			v[i] = at - h
			down := reference(t, model, values, shape, x, labels)
			v[i] = at
			want[i] = float32((up - down) / (2 * h))
		}
		wantClose(t, "gradient of "+p.Name, p.Grad, want, 1e-5)
	}
}
