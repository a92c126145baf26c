package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// placementRule is one entry of the YAML list "placements": the first rule
// whose glob matches a layer's name decides.
type placementRule struct {
	Layer     string `yaml:"layer" json:"layer"`
	Placement string `yaml:"placement" json:"placement"`
	Code      string `yaml:"code" json:"code,omitempty"`
	K         int    `yaml:"k" json:"k,omitempty"`
	M         int    `yaml:"m" json:"m,omitempty"` // of a shipped placement: blocks of the factors, m x p and p x q; 0: what suits k
	P         int    `yaml:"p" json:"p,omitempty"`
	Q         int    `yaml:"q" json:"q,omitempty"`
	Gradient  string `yaml:"gradient" json:"gradient,omitempty"` // of a batch placement: where dW is computed
}

// lists are the settings that have no flag, only a key in YAML.
type lists struct {
	Placements []placementRule `yaml:"placements,omitempty"`
	Groups     []groupRule     `yaml:"groups,omitempty"`
}

// fileSettings is the content of a YAML file.
type fileSettings struct {
	Flags runFlags `yaml:",inline"`
	Lists lists    `yaml:",inline"`
}

// resumeFlag names a run folder, whose config.yaml gives the other flags their values.
type resumeFlag string

// BeforeResolve makes kong read the folder's configuration, as -c does.
func (f resumeFlag) BeforeResolve(k *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	dir := string(ctx.FlagValue(trace.Flag).(resumeFlag))
	resolver, err := k.LoadConfig(filepath.Join(dir, configName))
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	ctx.AddResolver(resolver)
	return nil
}

// maxConfig bounds the size of a YAML file.
const maxConfig = 1 << 20

// yamlLoader returns kong's loader of -c files. An unknown key or a value of
// the wrong type is an error that shows line and column. Values become the
// defaults of the flags of the same name; what has no flag goes to l.
func yamlLoader(l *lists) kong.ConfigurationLoader {
	return func(r io.Reader) (kong.Resolver, error) {
		text, err := io.ReadAll(io.LimitReader(r, maxConfig))
		if err != nil {
			return nil, err
		}
		var typed fileSettings
		if err := yaml.UnmarshalWithOptions(text, &typed, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
			return nil, describeYAML(r, text, err)
		}
		*l = typed.Lists
		values := map[string]any{}
		if err := yaml.Unmarshal(text, &values); err != nil && !errors.Is(err, io.EOF) {
			return nil, describeYAML(r, text, err)
		}
		return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
			v, set := values[flag.Name]
			if !set || v == nil {
				return nil, nil
			}
			if reflect.TypeOf(v).Kind() == reflect.Slice {
				return v, nil
			}
			return fmt.Sprint(v), nil
		}), nil
	}
}

// describeYAML says on one line where in the file an error is, and what was
// expected there.
func describeYAML(r io.Reader, text []byte, err error) error {
	name := "YAML"
	if f, ok := r.(*os.File); ok {
		name = f.Name()
	}
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	message := at.GetMessage()
	var mismatch *yaml.TypeError
	if errors.As(err, &mismatch) {
		message = "want " + kindOfValue(mismatch.DstType)
	}
	p := at.GetToken().Position
	line := ""
	if lines := strings.Split(string(text), "\n"); p.Line >= 1 && p.Line <= len(lines) {
		line = strings.TrimSpace(lines[p.Line-1])
	}
	return fmt.Errorf("%s:%d:%d: %.60q: %s", name, p.Line, p.Column, line, message)
}

// kindOfValue says in words what a key takes.
func kindOfValue(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 30s"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "a text"
}
