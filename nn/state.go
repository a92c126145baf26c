package nn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

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

// SaveState writes the values of parameters, as Params gives them, to a
// safetensors file.
func SaveState(path string, params []NamedParam, metadata map[string]string) error {
	tensors := make([]NamedTensor, len(params))
	for i, p := range params {
		tensors[i] = NamedTensor{p.Name, p.Value}
	}
	return SaveTensors(path, tensors, metadata)
}

// LoadState reads the values of parameters from a file that SaveState or
// PyTorch wrote, and returns the file's text. The file must hold exactly these
// parameters in their shapes: otherwise the error is a *StateError that lists
// every difference, and nothing has been changed.
func LoadState(path string, params []NamedParam) (metadata map[string]string, err error) {
	err = open(path, func(f *safetensors.File) error {
		metadata = f.Metadata
		if err := compare(path, f.Entries, params); err != nil {
			return err
		}
		values := make([][]float32, len(params))
		for _, e := range f.Entries {
			i := slices.IndexFunc(params, func(p NamedParam) bool { return p.Name == e.Name })
			var err error
			if values[i], err = f.Float32s(e); err != nil {
				return err
			}
		}
		for i, p := range params {
			copy(p.Value.Data, values[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return metadata, nil
}

// StateError lists how the tensors of a file differ from those of a model.
type StateError struct {
	Path       string
	Missing    []string // in the model only
	Unexpected []string // in the file only
	Misshapen  []string // in both: "fc1.weight: F32 [10 5], want F32 [10 6]"
}

func (e *StateError) Error() string {
	msg := fmt.Sprintf("nn: load %s: the file does not fit the model", e.Path)
	for _, part := range []struct {
		what string
		list []string
	}{{"missing", e.Missing}, {"unexpected", e.Unexpected}, {"misshapen", e.Misshapen}} {
		if len(part.list) > 0 {
			msg += fmt.Sprintf("; %s: %q", part.what, part.list)
		}
	}
	return msg
}

func compare(path string, entries []safetensors.Entry, params []NamedParam) error {
	in := make(map[string]safetensors.Entry, len(entries))
	for _, e := range entries {
		in[e.Name] = e
	}
	diff := &StateError{Path: path}
	for _, p := range params {
		e, ok := in[p.Name]
		delete(in, p.Name)
		switch {
		case !ok:
			diff.Missing = append(diff.Missing, p.Name)
		case e.DType != "F32" || !slices.Equal(e.Shape, p.Value.Shape):
			diff.Misshapen = append(diff.Misshapen, fmt.Sprintf("%s: %s %v, want F32 %v", p.Name, e.DType, e.Shape, p.Value.Shape))
		}
	}
	for _, e := range entries {
		if _, left := in[e.Name]; left {
			diff.Unexpected = append(diff.Unexpected, e.Name)
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
