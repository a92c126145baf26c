package nn

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Params returns the parameters of a model in the order of its fields. They
// are found by walking the exported fields of structs, the elements of slices
// and arrays, and the values of maps with string keys (in the order of the
// keys). Names are PyTorch's: the field's name in snake case (Conv1 is conv1,
// FC1 is fc1, RunningMean is running_mean) or the index, joined by dots;
// what is in an embedded field counts as fields of the outer struct.
//
// A field's tag changes that: `nn:"-"` leaves it out, `nn:"name"` names it,
// `nn:",optional"` allows nil. All of these are errors, listed at once: a nil
// parameter, buffer or module, one of them in two places (use one field, and
// call its module twice), two of one name.
func Params(model Module) ([]NamedParam, error) {
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	return w.params, nil
}

// NamedModule is a module and its dotted name in the model, "layer2.0.conv1".
type NamedModule struct {
	Name string
	Module
}

// Modules returns the modules of a model that are pointers to structs with
// fields, in the order of its fields: the model itself (of empty name) first,
// every module before those that it holds.
func Modules(model Module) ([]NamedModule, error) {
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	return w.modules, nil
}

// NamedValue is an entry of a model's state and its dotted name,
// "layer2.0.bn1.running_mean". One of the pointers is set.
type NamedValue struct {
	Name    string
	Param   *Param
	Buffer  *Buffer
	Counter *Counter
}

// State returns everything that SaveState writes: the parameters and buffers
// of a model in the order of its fields, found as Params finds parameters.
// The names are those of PyTorch's state_dict.
func State(model Module) ([]NamedValue, error) {
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	return w.state, nil
}

var (
	paramType   = reflect.TypeFor[*Param]()
	bufferType  = reflect.TypeFor[*Buffer]()
	counterType = reflect.TypeFor[*Counter]()
	moduleType  = reflect.TypeFor[Module]()
)

// required tells whether a nil of the type is a mistake.
func required(t reflect.Type) bool {
	return t == paramType || t == bufferType || t == counterType || t.Implements(moduleType)
}

// walker collects what a model holds.
type walker struct {
	params  []NamedParam
	state   []NamedValue
	modules []NamedModule
	names   map[any]string // of modules, parameters and buffers, by pointer
	taken   map[string]bool
	open    map[any]bool // pointers on the way from the model to here
	errs    []error
}

func walk(model Module) (*walker, error) {
	w := &walker{names: make(map[any]string), taken: make(map[string]bool), open: make(map[any]bool)}
	if model == nil {
		return nil, errors.New("nn: nil model")
	}
	w.visit(reflect.ValueOf(model), "", false)
	if len(w.errs) > 0 {
		return nil, fmt.Errorf("nn: parameters of %T: %w", model, errors.Join(w.errs...))
	}
	return w, nil
}

func (w *walker) fail(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

func (w *walker) visit(v reflect.Value, path string, optional bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.reference(v, path, optional)
	case reflect.Struct:
		w.fields(v, path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.visit(v.Index(i), join(path, strconv.Itoa(i)), false)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			w.visit(v.MapIndex(k), join(path, k.String()), false)
		}
	}
}

// reference follows a pointer or an interface.
func (w *walker) reference(v reflect.Value, path string, optional bool) {
	if v.IsNil() {
		if !optional && required(v.Type()) {
			w.fail("%s is nil", describe(path))
		}
		return
	}
	if v.Kind() == reflect.Interface {
		w.visit(v.Elem(), path, optional)
		return
	}
	key := v.Interface()
	switch key := key.(type) {
	case *Param:
		if w.value(key, path, "parameter") {
			w.params = append(w.params, NamedParam{Name: path, Param: key})
			w.state = append(w.state, NamedValue{Name: path, Param: key})
		}
		return
	case *Buffer:
		if w.value(key, path, "buffer") {
			w.state = append(w.state, NamedValue{Name: path, Buffer: key})
		}
		return
	case *Counter:
		if w.value(key, path, "counter") {
			w.state = append(w.state, NamedValue{Name: path, Counter: key})
		}
		return
	}
	if w.open[key] {
		w.fail("%s holds itself", describe(path))
		return
	}
	if hashable(key) {
		w.open[key] = true
		defer delete(w.open, key)
		if _, ok := w.names[key]; !ok {
			w.names[key] = path
			if m, ok := key.(Module); ok {
				w.modules = append(w.modules, NamedModule{Name: path, Module: m})
			}
		}
	}
	w.visit(v.Elem(), path, false)
}

// value takes down a parameter or a buffer, unless it or its name is known.
func (w *walker) value(key any, path, kind string) bool {
	if first, ok := w.names[key]; ok {
		w.fail("%s is the same %s as %s", describe(path), kind, describe(first))
		return false
	}
	if w.taken[path] {
		w.fail("two values have the name %s", describe(path))
		return false
	}
	w.names[key], w.taken[path] = path, true
	return true
}

func (w *walker) fields(v reflect.Value, path string) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("nn"), ",")
		// The exported fields of an embedded struct are ours, whatever its name.
		ours := f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct
		if name == "-" || !ours {
			continue
		}
		sub := join(path, snake(f.Name))
		if name != "" {
			sub = join(path, name)
		} else if f.Anonymous {
			sub = path
		}
		w.visit(v.Field(i), sub, rest == "optional")
	}
}

// hashable tells whether a value can be the key of a map by identity: Go may
// give all values of size zero the same address.
func hashable(key any) bool {
	return key != nil && reflect.TypeOf(key).Kind() == reflect.Pointer && reflect.TypeOf(key).Elem().Size() > 0
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func describe(path string) string {
	if path == "" {
		return "the model itself"
	}
	return path
}

// snake puts a Go name into snake case. A word begins at an upper-case letter
// that follows anything else, and at the last one of an acronym that goes on
// in lower case: FC1 is fc1, ConvBN is conv_bn, BNConv is bn_conv.
func snake(name string) string {
	r := []rune(name)
	var b strings.Builder
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 {
			ends := i+1 < len(r) && unicode.IsLower(r[i+1])
			if !unicode.IsUpper(r[i-1]) && r[i-1] != '_' || unicode.IsUpper(r[i-1]) && ends {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
