package nn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/atomicfile"
	"github.com/coda-ml/coda/internal/safetensors"
)

// NamedTensor is a tensor in a file.
type NamedTensor struct {
	Name string
	coded.Tensor
}

// SaveTensors writes tensors and some text to a safetensors file, whole or
// not at all. PyTorch reads it with safetensors.torch.load_file.
func SaveTensors(path string, tensors []NamedTensor, metadata map[string]string) error {
	list := make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		list[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, Data: t.Data}
	}
	err := atomicfile.Write(path, func(w io.Writer) error { return safetensors.Write(w, list, metadata) })
	if err != nil {
		return fmt.Errorf("nn: save: %w", err)
	}
	return nil
}

// LoadTensors reads all tensors of a safetensors file, which must be float32,
// in the order of the file.
func LoadTensors(path string) (tensors []NamedTensor, metadata map[string]string, err error) {
	err = open(path, func(f *safetensors.File) error {
		metadata = f.Metadata
		for _, e := range f.Entries {
			data, err := f.Float32s(e)
			if err != nil {
				return err
			}
			tensors = append(tensors, NamedTensor{e.Name, coded.Tensor{Shape: e.Shape, Data: data}})
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return tensors, metadata, nil
}

// SaveState writes the state of a model, its parameters and buffers, to a
// safetensors file, named and laid out as in PyTorch.
func SaveState(path string, model Module, metadata map[string]string) error {
	state, err := State(model)
	if err != nil {
		return err
	}
	var counters, tensors []safetensors.Tensor
	for _, v := range state {
		if v.Counter != nil {
			counters = append(counters, safetensors.Tensor{Name: v.Name, Ints: []int64{v.Counter.Value}})
			continue
		}
		value := v.tensor()
		tensors = append(tensors, safetensors.Tensor{Name: v.Name, Shape: value.Shape, Data: value.Data})
	}
	err = atomicfile.Write(path, func(w io.Writer) error {
		return safetensors.Write(w, append(counters, tensors...), metadata)
	})
	if err != nil {
		return fmt.Errorf("nn: save: %w", err)
	}
	return nil
}

// tensor returns the value of a parameter or a buffer.
func (v NamedValue) tensor() coded.Tensor {
	if v.Param != nil {
		return v.Param.Value
	}
	return v.Buffer.Value
}

// LoadOption is a setting of LoadState.
type LoadOption func(*loadOptions)

type loadOptions struct{ except []func(name string) bool }

// Except leaves alone the values whose names begin with one of the prefixes,
// in the model and in the file: Except("fc.") loads all but the head.
func Except(prefixes ...string) LoadOption {
	return ExceptFunc(func(name string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// ExceptFunc leaves alone the values of whose names the function says so, in
// the model and in the file.
func ExceptFunc(skip func(name string) bool) LoadOption {
	return func(o *loadOptions) { o.except = append(o.except, skip) }
}

func (o *loadOptions) skips(name string) bool {
	return slices.ContainsFunc(o.except, func(skip func(string) bool) bool { return skip(name) })
}

// LoadState reads the state of a model from a file that SaveState or PyTorch
// wrote, and returns the file's text. The file must hold exactly the model's
// parameters and buffers in their shapes: otherwise the error is a *StateError
// that lists every difference, and nothing has been changed. Only counters may
// be missing, as they are in files of before PyTorch 0.4.1; they become 0.
func LoadState(path string, model Module, opts ...LoadOption) (metadata map[string]string, err error) {
	var o loadOptions
	for _, opt := range opts {
		opt(&o)
	}
	state, err := State(model)
	if err != nil {
		return nil, err
	}
	state = slices.DeleteFunc(state, func(v NamedValue) bool { return o.skips(v.Name) })
	err = open(path, func(f *safetensors.File) error {
		metadata = f.Metadata
		entries := slices.DeleteFunc(slices.Clone(f.Entries), func(e safetensors.Entry) bool { return o.skips(e.Name) })
		if err := compare(path, entries, state); err != nil {
			return err
		}
		return read(f, entries, state)
	})
	if err != nil {
		return nil, err
	}
	return metadata, nil
}

// read reads all entries before it changes a value.
func read(f *safetensors.File, entries []safetensors.Entry, state []NamedValue) error {
	in := make(map[string]safetensors.Entry, len(entries))
	for _, e := range entries {
		in[e.Name] = e
	}
	floats := make([][]float32, len(state))
	counts := make([]int64, len(state))
	for i, v := range state {
		e, ok := in[v.Name]
		var err error
		switch {
		case v.Counter == nil:
			floats[i], err = f.Float32s(e)
		case ok:
			var n []int64
			if n, err = f.Int64s(e); err == nil {
				counts[i] = n[0]
			}
		}
		if err != nil {
			return err
		}
	}
	for i, v := range state {
		if v.Counter != nil {
			v.Counter.Value = counts[i]
		} else {
			copy(v.tensor().Data, floats[i])
		}
	}
	return nil
}

// StateError lists how the tensors of a file differ from those of a model.
type StateError struct {
	Path       string
	Missing    []string // in the model only: "fc1.weight: want F32 [10 6]"
	Unexpected []string // in the file only: "fc9.weight: F32 [10 6]"
	Misshapen  []string // in both: "fc1.weight: F32 [10 5], want F32 [10 6]"
}

// Error names the first few of each kind, and how many more there are.
func (e *StateError) Error() string {
	const most = 6
	msg := fmt.Sprintf("nn: load %s: the file does not fit the model", e.Path)
	for _, part := range []struct {
		what string
		list []string
	}{{"missing", e.Missing}, {"unexpected", e.Unexpected}, {"misshapen", e.Misshapen}} {
		if len(part.list) == 0 {
			continue
		}
		msg += fmt.Sprintf("; %s: %q", part.what, part.list[:min(most, len(part.list))])
		if more := len(part.list) - most; more > 0 {
			msg += fmt.Sprintf(" and %d more", more)
		}
	}
	return msg
}

func compare(path string, entries []safetensors.Entry, state []NamedValue) error {
	in := make(map[string]safetensors.Entry, len(entries))
	for _, e := range entries {
		in[e.Name] = e
	}
	diff := &StateError{Path: path}
	for _, v := range state {
		e, ok := in[v.Name]
		delete(in, v.Name)
		dtype, shape := "I64", []int{}
		if v.Counter == nil {
			dtype, shape = "F32", v.tensor().Shape
		}
		switch {
		case !ok && v.Counter == nil:
			diff.Missing = append(diff.Missing, fmt.Sprintf("%s: want %s %v", v.Name, dtype, shape))
		case ok && (e.DType != dtype || !slices.Equal(e.Shape, shape)):
			diff.Misshapen = append(diff.Misshapen, fmt.Sprintf("%s: %s %v, want %s %v", v.Name, e.DType, e.Shape, dtype, shape))
		}
	}
	for _, e := range entries {
		if _, left := in[e.Name]; left {
			diff.Unexpected = append(diff.Unexpected, fmt.Sprintf("%s: %s %v", e.Name, e.DType, e.Shape))
		}
	}
	if diff.Missing == nil && diff.Unexpected == nil && diff.Misshapen == nil {
		return nil
	}
	return diff
}

// open reads the header of a file and passes it to use.
func open(path string, use func(*safetensors.File) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("nn: load: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("nn: load: %w", err)
	}
	f, err := safetensors.Read(file, info.Size())
	if err == nil {
		err = use(f)
	}
	if state := (*StateError)(nil); err == nil || errors.As(err, &state) {
		return err
	}
	return fmt.Errorf("nn: load %s: %w", path, err)
}
