package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// placementRule is one entry of the YAML list "placements": the first rule
// whose glob matches a layer's name decides.
type placementRule struct {
	Layer     string `yaml:"layer" json:"layer"`
	Placement string `yaml:"placement" json:"placement"`
	Code      string `yaml:"code,omitempty" json:"code,omitempty"`
	K         int    `yaml:"k,omitempty" json:"k,omitempty"`
	M         int    `yaml:"m,omitempty" json:"m,omitempty"` // of a shipped placement: blocks of the factors, m x p and p x q; 0: what suits k
	P         int    `yaml:"p,omitempty" json:"p,omitempty"`
	Q         int    `yaml:"q,omitempty" json:"q,omitempty"`
	Gradient  string `yaml:"gradient,omitempty" json:"gradient,omitempty"` // of a batch placement: where dW is computed

	at string // file:line; empty if it is from no file
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

// yamlLoader returns kong's loader of -c files. Values become the defaults of the flags of
// the same name; what has no flag goes to l.
func yamlLoader(l *lists) kong.ConfigurationLoader {
	return func(r io.Reader) (kong.Resolver, error) {
		settings, values, err := parseSettings(r)
		if err != nil {
			return nil, err
		}
		*l = settings.Lists
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

// parseSettings reads a YAML file, as settings and as what its keys say. An unknown key or
// a value of the wrong type is an error that shows line and column.
func parseSettings(r io.Reader) (*fileSettings, map[string]any, error) {
	f := yamlFile{name: "YAML"}
	if named, ok := r.(*os.File); ok {
		f.name = named.Name()
	}
	body, err := f.parse(r)
	if err != nil {
		return nil, nil, err
	}
	settings, values := &fileSettings{}, map[string]any{}
	if body == nil {
		return settings, values, nil
	}
	if err := yaml.NodeToValue(body, settings, yaml.Strict()); err != nil {
		return nil, nil, f.describe(err)
	}
	if err := yaml.NodeToValue(body, &values); err != nil {
		return nil, nil, f.describe(err)
	}
	if err := f.checkWhole(body, reflect.TypeFor[fileSettings]()); err != nil {
		return nil, nil, err
	}
	l := &settings.Lists
	for i, entry := range entriesOf(body, "placements", len(l.Placements)) {
		l.Placements[i].at = f.at(entry)
	}
	for i, entry := range entriesOf(body, "groups", len(l.Groups)) {
		l.Groups[i].at = f.at(entry)
	}
	return settings, values, nil
}

// entryAt names an entry of a list in an error: by where it is, or by its number.
func entryAt(list string, i int, at string) string {
	if at != "" {
		return fmt.Sprintf("%s: %s:", at, list)
	}
	return fmt.Sprintf("%s, entry %d:", list, i+1)
}
