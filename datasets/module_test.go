package datasets

import (
	"context"
	"errors"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// fakeGo is a program and its machine. The zero value has neither build
// information nor a go command.
type fakeGo struct {
	vars    map[string]string
	info    *debug.BuildInfo
	answers map[string]string // output of the go command by its first argument
	asked   []string          // first arguments, in order
}

func (f *fakeGo) command(_ context.Context, args ...string) (string, error) {
	f.asked = append(f.asked, args[0])
	if out, ok := f.answers[args[0]]; ok {
		return out, nil
	}
	return "", errors.New("no go command")
}

func (f *fakeGo) env() goEnv {
	return goEnv{
		getenv:    func(name string) string { return f.vars[name] },
		buildInfo: func() (*debug.BuildInfo, bool) { return f.info, f.info != nil },
		command:   f.command,
	}
}

const tinyModule = "example.com/Tiny"

func builtWith(version string, replace *debug.Module) *debug.BuildInfo {
	return &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.com/other", Version: "v1.0.0"},
		{Path: tinyModule, Version: version, Replace: replace},
	}}
}

func TestModuleFolders(t *testing.T) {
	root := t.TempDir()
	abs := func(elem ...string) string { return filepath.Join(append([]string{root}, elem...)...) }
	const escaped = "example.com/!tiny@v1.2.0-!r!c"
	info := builtWith("v1.2.0-RC", nil)
	for _, c := range []struct {
		name string
		fake fakeGo
		want []string // folders, and notes in parentheses
	}{
		{"GOMODCACHE", fakeGo{info: info, vars: map[string]string{"GOMODCACHE": abs("mc"), "GOPATH": abs("gp")},
			answers: map[string]string{"env": abs("mc"), "list": abs("l")}},
			[]string{abs("mc", escaped), abs("l")}},
		{"first of GOPATH", fakeGo{info: info, vars: map[string]string{"GOPATH": abs("gp") + string(filepath.ListSeparator) + abs("q"), "HOME": abs("h")},
			answers: map[string]string{"env": abs("mc"), "list": abs("l")}},
			[]string{abs("gp", "pkg", "mod", escaped), abs("mc", escaped), abs("l")}},
		{"home, and no go command", fakeGo{info: info, vars: map[string]string{"HOME": abs("h")}},
			[]string{abs("h", "go", "pkg", "mod", escaped), "(go env GOMODCACHE (no go command))"}},
		{"vendored", fakeGo{info: info, vars: map[string]string{"GOMODCACHE": abs("mc")},
			answers: map[string]string{"env": abs("mc"), "list": ""}},
			[]string{abs("mc", escaped), "(go list -m example.com/Tiny (not unpacked: vendored, or never downloaded))"}},
		{"replaced by another module", fakeGo{info: builtWith("v1.0.0", &debug.Module{Path: "example.com/fork", Version: "v2.0.0"}),
			vars: map[string]string{"GOMODCACHE": abs("mc")}, answers: map[string]string{"env": abs("mc"), "list": abs("l")}},
			[]string{abs("mc", "example.com/fork@v2.0.0"), abs("l")}},
		{"replaced by a folder", fakeGo{info: builtWith("v1.0.0", &debug.Module{Path: abs("mine")}),
			vars: map[string]string{"GOMODCACHE": abs("mc")}, answers: map[string]string{"list": abs("l")}},
			[]string{abs("mine"), abs("l")}},
		{"replaced by a relative folder", fakeGo{info: builtWith("v1.0.0", &debug.Module{Path: "../mine"}), answers: map[string]string{"list": abs("l")}},
			[]string{"(build information (example.com/Tiny is replaced by ../mine))", abs("l")}},
		{"a test binary", fakeGo{info: &debug.BuildInfo{}, answers: map[string]string{"list": abs("l")}},
			[]string{"(build information (no version of example.com/Tiny))", abs("l")}},
		{"nothing at all", fakeGo{},
			[]string{"(build information (none in this program))", "(go list -m example.com/Tiny (no go command))"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for p := range c.fake.env().moduleFolders(t.Context(), tinyModule) {
				if p.dir != "" {
					got = append(got, p.dir)
				} else {
					got = append(got, "("+p.note+")")
				}
			}
			for i, w := range c.want {
				c.want[i] = filepath.FromSlash(w)
				if strings.HasPrefix(w, "(") {
					c.want[i] = w
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// TestModuleFoldersAreLazy: the go command runs only if the cheap ways failed.
func TestModuleFoldersAreLazy(t *testing.T) {
	fake := fakeGo{info: builtWith("v1.0.0", nil), vars: map[string]string{"GOMODCACHE": t.TempDir()}}
	for range fake.env().moduleFolders(t.Context(), tinyModule) {
		break
	}
	if len(fake.asked) > 0 {
		t.Errorf("the go command was asked %q", fake.asked)
	}
}

func TestFindInModuleCache(t *testing.T) {
	f, content := tiny(t)
	cache := t.TempDir()
	fake := fakeGo{info: builtWith("v1.0.0", nil), vars: map[string]string{"GOMODCACHE": cache}}
	writeFiles(t, filepath.Join(cache, "example.com", "!tiny@v1.0.0", "data"), content)
	files, err := find(t, f, Options{CacheDir: t.TempDir(), Offline: true}, fake.env())
	if err != nil || !strings.Contains(files[0].path, "!tiny@v1.0.0") {
		t.Errorf("read %s, %v", files[0].path, err)
	}
}

// TestFindSkipsDamagedModule: a module folder with a file that was changed is
// not used, and the search goes on.
func TestFindSkipsDamagedModule(t *testing.T) {
	f, content := tiny(t)
	modules, cache := t.TempDir(), t.TempDir()
	fake := fakeGo{info: builtWith("v1.0.0", nil), vars: map[string]string{"GOMODCACHE": modules}}
	writeFiles(t, filepath.Join(cache, "tiny"), content)
	content["train-images-idx3-ubyte.gz"] = gzipped(t, []byte("changed"))
	writeFiles(t, filepath.Join(modules, "example.com", "!tiny@v1.0.0", "data"), content)
	files, err := find(t, f, Options{CacheDir: cache, Offline: true}, fake.env())
	if err != nil || !strings.HasPrefix(files[0].path, cache) {
		t.Errorf("read %s, %v; want the cache folder's file", files[0].path, err)
	}
}

func TestRunGo(t *testing.T) {
	if out, err := runGo(t.Context(), "env", "GOMODCACHE"); err != nil || !filepath.IsAbs(out) {
		t.Errorf("go env GOMODCACHE: %q, %v", out, err)
	}
	if _, err := runGo(t.Context(), "list", "-m", "example.com/none"); err == nil || !strings.Contains(err.Error(), "example.com/none") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a module that is not there: got %v, want one line that names it", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runGo(ctx, "env"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := runGo(t.Context(), "env"); err == nil {
		t.Error("no error without a go command")
	}
}
