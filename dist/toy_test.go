package dist

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
)

// toyShard is a small resident linear layer in plain loops: the slot's coded
// column block F (in x out/k) and row block R (in/k x out) of a weight matrix W
// (in x out), trained by plain gradient descent. Chunk c of a forward product is
// the c-th part of the columns of X F, of a backward product of dY R^T.
type toyShard struct {
	layer   coded.Layer
	code    *coded.Code
	slot    int
	in, out int
	f, r    []float32
	df, dr  []float64
}

const toyKind = "toy"

// toyLayer describes a toy layer; its sizes travel in Config.
func toyLayer(name string, spec coded.Spec, chunks, in, out int) coded.Layer {
	return coded.Layer{Name: name, Kind: toyKind, Code: spec, Chunks: chunks, Config: []byte{byte(in), byte(out)}}
}

func newToyShard(l coded.Layer, slot int) (coded.Shard, error) {
	code, err := coded.New(l.Code)
	if err != nil {
		return nil, err
	}
	if len(l.Config) != 2 {
		return nil, errors.New("toy: config of 2 bytes expected")
	}
	in, out := int(l.Config[0]), int(l.Config[1])
	s := &toyShard{layer: l, code: code, slot: slot, in: in, out: out}
	s.f = make([]float32, in*out/code.K())
	s.r = make([]float32, in/code.K()*out)
	s.df, s.dr = make([]float64, len(s.f)), make([]float64, len(s.r))
	return s, nil
}

// toyState encodes W for a slot.
func toyState(code *coded.Code, slot, in, out int, w []float64) []coded.Tensor {
	k := code.K()
	p, q := in/k, out/k
	f, r := coded.NewTensor(in, q), coded.NewTensor(p, out)
	acc := make([]float64, in*q)
	for i := range in {
		for j := range out {
			acc[i*q+j%q] += code.Row(slot)[j/q] * w[i*out+j]
		}
	}
	for i, v := range acc {
		f.Data[i] = float32(v)
	}
	acc = make([]float64, p*out)
	for i := range in {
		for j := range out {
			acc[i%p*out+j] += code.Row(slot)[i/p] * w[i*out+j]
		}
	}
	for i, v := range acc {
		r.Data[i] = float32(v)
	}
	return []coded.Tensor{f, r}
}

func (s *toyShard) Flops(_ coded.Product, operand []int) float64 {
	return 2 * float64(operand[0]*len(s.f))
}

func (s *toyShard) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	rows, k := x.Shape[0], s.code.K()
	width, inner := s.out/k, s.in
	if p == coded.Backward {
		width, inner = s.in/k, s.out
	}
	if x.Shape[1] != inner {
		return coded.Tensor{}, fmt.Errorf("toy: %s operand of shape %v, want %d columns", p, x.Shape, inner)
	}
	lo, hi := chunk*width/s.layer.Chunks, (chunk+1)*width/s.layer.Chunks
	if s.layer.ByBatch {
		lo, hi = 0, width
	}
	y := coded.NewTensor(rows, hi-lo)
	for i := range rows {
		for j := lo; j < hi; j++ {
			var sum float64
			for t := range inner {
				w := s.f
				at := t*width + j
				if p == coded.Backward {
					w, at = s.r, j*s.out+t
				}
				sum += float64(x.Data[i*inner+t]) * float64(w[at])
			}
			y.Data[i*(hi-lo)+j-lo] = float32(sum)
		}
	}
	return y, nil
}

func (s *toyShard) Accumulate(x, dy coded.Tensor) error {
	k := s.code.K()
	p, q := s.in/k, s.out/k
	row := s.code.Row(s.slot)
	for b := range x.Shape[0] {
		for i := range s.in {
			for j := range s.out {
				g := float64(x.Data[b*s.in+i]) * float64(dy.Data[b*s.out+j])
				s.df[i*q+j%q] += row[j/q] * g
				s.dr[i%p*s.out+j] += row[i/p] * g
			}
		}
	}
	return nil
}

func (s *toyShard) Apply(u coded.Update) error {
	for i, g := range s.df {
		s.f[i] -= float32(u.LR * g)
	}
	for i, g := range s.dr {
		s.r[i] -= float32(u.LR * g)
	}
	clear(s.df)
	clear(s.dr)
	return nil
}

func (s *toyShard) State() []coded.Tensor {
	k := s.code.K()
	return []coded.Tensor{{Shape: []int{s.in, s.out / k}, Data: s.f}, {Shape: []int{s.in / k, s.out}, Data: s.r}}
}

func (s *toyShard) SetState(state []coded.Tensor) error {
	if len(state) != 2 || len(state[0].Data) != len(s.f) || len(state[1].Data) != len(s.r) {
		return fmt.Errorf("toy: state of %d tensors", len(state))
	}
	copy(s.f, state[0].Data)
	copy(s.r, state[1].Data)
	return nil
}

// toyModel is the truth: W in float64, trained without any code, and what is
// needed to decode the cluster's answers.
type toyModel struct {
	layer     coded.Layer
	code      *coded.Code
	decoder   *coded.Decoder
	in, out   int
	batch     int     // rows of an operand; 0: 3
	tolerance float64 // of products; 0: toyTolerance
	w         []float64
	rng       *rand.Rand
}

func newToyModel(l coded.Layer, seed uint64) *toyModel {
	code, err := coded.New(l.Code)
	if err != nil {
		panic(err)
	}
	m := &toyModel{
		layer: l, code: code, decoder: coded.NewDecoder(code, coded.DecoderConfig{}),
		in: int(l.Config[0]), out: int(l.Config[1]), rng: rand.New(rand.NewPCG(seed, 1)),
	}
	m.w = make([]float64, m.in*m.out)
	for i := range m.w {
		m.w[i] = m.rng.Float64() - 0.5
	}
	return m
}

func (m *toyModel) state(slot int) ([]coded.Tensor, error) {
	return toyState(m.code, slot, m.in, m.out, m.w), nil
}

func (m *toyModel) random(rows, cols int) coded.Tensor {
	t := coded.NewTensor(rows, cols)
	for i := range t.Data {
		t.Data[i] = float32(m.rng.Float64() - 0.5)
	}
	return t
}

// operand draws an operand for a product.
func (m *toyModel) operand(p coded.Product) coded.Tensor {
	rows := cmp.Or(m.batch, 3)
	if p == coded.Forward {
		return m.random(rows, m.in)
	}
	return m.random(rows, m.out)
}

// want is the product of the truth.
func (m *toyModel) want(p coded.Product, x coded.Tensor) []float64 {
	rows := x.Shape[0]
	n, inner := m.out, m.in
	if p == coded.Backward {
		n, inner = m.in, m.out
	}
	y := make([]float64, rows*n)
	for i := range rows {
		for j := range n {
			for t := range inner {
				at := t*m.out + j
				if p == coded.Backward {
					at = j*m.out + t
				}
				y[i*n+j] += float64(x.Data[i*inner+t]) * m.w[at]
			}
		}
	}
	return y
}

// step trains the truth on a pair of operands.
func (m *toyModel) step(x, dy coded.Tensor, lr float64) {
	for b := range x.Shape[0] {
		for i := range m.in {
			for j := range m.out {
				m.w[i*m.out+j] -= lr * float64(x.Data[b*m.in+i]) * float64(dy.Data[b*m.out+j])
			}
		}
	}
}

// decode puts the answers of a round together.
func (m *toyModel) decode(p coded.Product, answers [][]coded.Answer, rows int) ([]float32, error) {
	n := m.out
	if p == coded.Backward {
		n = m.in
	}
	width := n / m.code.K()
	y := make([]float32, rows*n)
	for chunk, list := range answers {
		var have []int
		for _, a := range list {
			have = append(have, a.Slot)
		}
		w, err := m.decoder.Weights(have)
		if err != nil {
			return nil, err
		}
		lo, hi := chunk*width/len(answers), (chunk+1)*width/len(answers)
		if m.layer.ByBatch {
			lo, hi = 0, width
		}
		first, last := m.layer.Rows(rows, chunk)
		for block := range m.code.K() {
			for i := first; i < last; i++ {
				for j := lo; j < hi; j++ {
					var sum float64
					for a, d := range w.D[block] {
						sum += d * float64(list[a].Result.Data[(i-first)*(hi-lo)+j-lo])
					}
					y[i*n+block*width+j] = float32(sum)
				}
			}
		}
	}
	return y, nil
}

// distance is the largest difference over the largest value that was wanted.
func distance(have []float32, want []float64) float64 {
	var worst, size float64
	for i, v := range want {
		worst = max(worst, math.Abs(float64(have[i])-v))
		size = max(size, math.Abs(v))
	}
	return worst / size
}
