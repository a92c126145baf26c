package optim_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/safetensors"

	"github.com/coda-ml/coda/optim"
)

// golden is a file of reference values written by PyTorch 1.13.
type golden struct {
	t  *testing.T
	st safetensors.SafeTensors
	// settings of the case, from the file's header
	lr, momentum, decay float64
	nesterov            bool
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	st, err := safetensors.Deserialize(raw)
	if err != nil {
		t.Fatal(err)
	}
	_, meta, err := safetensors.ReadMetadata(raw)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		LR       float64 `json:"lr"`
		Momentum float64 `json:"momentum"`
		Decay    float64 `json:"weight_decay"`
		Nesterov bool    `json:"nesterov"`
	}
	if err := json.Unmarshal([]byte(meta.Metadata()["case"]), &c); err != nil {
		t.Fatal(err)
	}
	return golden{t, st, c.LR, c.Momentum, c.Decay, c.Nesterov}
}

func (g golden) bytes(name string) []byte {
	g.t.Helper()
	v, ok := g.st.Tensor(name)
	if !ok {
		g.t.Fatalf("golden file without tensor %q", name)
	}
	return v.Data()
}

func (g golden) float32s(name string) []float32 {
	raw := g.bytes(name)
	x := make([]float32, len(raw)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return x
}

func (g golden) float64s(name string) []float64 {
	raw := g.bytes(name)
	x := make([]float64, len(raw)/8)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return x
}

func TestGoldenOptimizers(t *testing.T) {
	build := map[string]func(g golden) (optim.Optimizer, error){
		"optim_sgd": newGoldenSGD, "optim_sgd_momentum_wd": newGoldenSGD, "optim_sgd_nesterov_wd": newGoldenSGD,
		"optim_adam": newGoldenAdam, "optim_adam_wd": newGoldenAdam,
	}
	for name, mk := range build {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			o, err := mk(g)
			if err != nil {
				t.Fatal(err)
			}
			w := g.float32s("w_0")
			for step := 1; step <= 8; step++ {
				p := optim.Param{Name: "w", Value: w, Grad: g.float32s(fmt.Sprintf("g_%d", step))}
				if err := o.Step(step, []optim.Param{p}); err != nil {
					t.Fatal(err)
				}
				for i, want := range g.float32s(fmt.Sprintf("w_%d", step)) {
					if d := math.Abs(float64(w[i] - want)); !(d <= 1e-5) {
						t.Errorf("step %d: w[%d] = %v, want %v", step, i, w[i], want)
					}
				}
			}
		})
	}
}

func newGoldenSGD(g golden) (optim.Optimizer, error) {
	return optim.NewSGD(optim.SGDConfig{LR: optim.Constant(g.lr), Momentum: g.momentum, Decay: g.decay, Nesterov: g.nesterov})
}

func newGoldenAdam(g golden) (optim.Optimizer, error) {
	return optim.NewAdam(optim.AdamConfig{LR: optim.Constant(g.lr), Decay: g.decay})
}

func TestGoldenSchedules(t *testing.T) {
	step, err := optim.Step(0.1, 5, 0.1) // StepLR(5, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	cosine, err := optim.Cosine(0.1, 0.001, 20) // CosineAnnealingLR(20, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]optim.Schedule{"schedule_step": step, "schedule_cosine": cosine} {
		want := readGolden(t, name).float64s("lr")
		if len(want) != 20 {
			t.Fatalf("%s: %d values, want 20", name, len(want))
		}
		for i, w := range want {
			if got := s(i + 1); !(math.Abs(got-w) <= 1e-12) {
				t.Errorf("%s: step %d: %v, want %v", name, i+1, got, w)
			}
		}
	}
}
