package kernel

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// golden is one case computed by PyTorch: tensors, and the settings of the case.
type golden struct {
	name    string
	tensors safetensors.SafeTensors
	setting map[string]float64
}

// goldens reads the files of testdata whose names match the pattern.
func goldens(t *testing.T, pattern string) []golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files %s: found %d, error %v", pattern, len(files), err)
	}
	var all []golden
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := safetensors.Deserialize(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		g := golden{name: filepath.Base(file), tensors: tensors}
		var header struct {
			Metadata map[string]string `json:"__metadata__"`
		}
		size := binary.LittleEndian.Uint64(data)
		if err := json.Unmarshal(data[8:8+size], &header); err != nil {
			t.Fatalf("%s: header: %v", file, err)
		}
		if err := json.Unmarshal([]byte(header.Metadata["case"]), &g.setting); err != nil {
			t.Fatalf("%s: case: %v", file, err)
		}
		all = append(all, g)
	}
	return all
}

// tensor returns a tensor's shape and its bytes.
func (g golden) tensor(t *testing.T, name string) ([]int, []byte) {
	t.Helper()
	v, ok := g.tensors.Tensor(name)
	if !ok {
		t.Fatalf("%s: no tensor %s", g.name, name)
	}
	var shape []int
	for _, d := range v.Shape() {
		shape = append(shape, int(d))
	}
	return shape, v.Data()
}

// floats returns a float32 tensor.
func (g golden) floats(t *testing.T, name string) []float32 {
	t.Helper()
	_, data := g.tensor(t, name)
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// labels returns an int64 tensor as labels.
func (g golden) labels(t *testing.T, name string) []int32 {
	t.Helper()
	_, data := g.tensor(t, name)
	x := make([]int32, len(data)/8)
	for i := range x {
		x[i] = int32(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return x
}

// checkNear fails if an entry of got differs from want by more than tol times
// the largest entry of want.
func checkNear[T float32 | float64](t failer, what string, got []float32, want []T, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
	}
	most := 0.0
	for _, v := range want {
		most = max(most, math.Abs(float64(v)))
	}
	for i, v := range got {
		if d := math.Abs(float64(v) - float64(want[i])); !(d <= tol*most) {
			t.Fatalf("%s: entry %d is %g, want %g (largest entry %g)", what, i, v, want[i], most)
		}
	}
}

// checkSame fails unless got and want have the same bits.
func checkSame(t failer, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: entry %d is %g, want the same bits as %g", what, i, got[i], want[i])
		}
	}
}

// failer is what the checks need of a *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}
