package datasets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
)

// goDeadline bounds each run of the go command.
const goDeadline = 20 * time.Second

// goEnv is what finding a module's folder needs from the outside.
type goEnv struct {
	getenv    func(name string) string
	buildInfo func() (*debug.BuildInfo, bool)
	// command runs the go command and returns its output without the end of line.
	command func(ctx context.Context, args ...string) (string, error)
}

var systemGo = goEnv{os.Getenv, debug.ReadBuildInfo, runGo}

func runGo(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, goDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	// The question must not download modules or another toolchain.
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
			line, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
			err = fmt.Errorf("%w: %s", err, line)
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// place is a folder, or, if dir is empty, a note why a way to find one failed.
type place struct{ dir, note string }

// moduleFolders yields the folders in which a module of this program may be
// unpacked, the cheapest ways to find it first: the version written into the
// program and the module cache, then the go command.
func (g goEnv) moduleFolders(ctx context.Context, module string) iter.Seq[place] {
	return func(yield func(place) bool) {
		folder, note := g.builtWith(module)
		if note != "" && !yield(place{note: note}) {
			return
		}
		roots := g.moduleCaches()
		if folder != "" {
			if filepath.IsAbs(folder) {
				roots = []string{""}
			}
			for _, root := range roots {
				if !yield(place{dir: filepath.Join(root, folder)}) {
					return
				}
			}
		}
		g.askGo(ctx, module, folder, roots, yield)
	}
}

// askGo asks the go command where its module cache is and where the module is.
// The second works only inside a module that needs it.
func (g goEnv) askGo(ctx context.Context, module, folder string, known []string, yield func(place) bool) {
	if folder != "" && !filepath.IsAbs(folder) {
		root, err := g.command(ctx, "env", "GOMODCACHE")
		if err != nil {
			// Without a go command the other question is in vain as well.
			yield(place{note: fmt.Sprintf("go env GOMODCACHE (%v)", err)})
			return
		}
		if root != "" && !contains(known, root) && !yield(place{dir: filepath.Join(root, folder)}) {
			return
		}
	}
	dir, err := g.command(ctx, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module)
	switch {
	case err != nil:
		yield(place{note: fmt.Sprintf("go list -m %s (%v)", module, err)})
	case dir == "":
		yield(place{note: fmt.Sprintf("go list -m %s (not unpacked: vendored, or never downloaded)", module)})
	default:
		yield(place{dir: dir})
	}
}

// builtWith returns the folder of a module, absolute or relative to a module
// cache, by the version that this program was built with; or a note why not.
// Test binaries may carry no versions.
func (g goEnv) builtWith(module string) (folder, note string) {
	info, ok := g.buildInfo()
	if !ok {
		return "", "build information (none in this program)"
	}
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		switch {
		case dep.Version != "":
			return escapeModule(dep.Path) + "@" + escapeModule(dep.Version), ""
		case filepath.IsAbs(dep.Path):
			return dep.Path, ""
		}
		return "", fmt.Sprintf("build information (%s is replaced by %s)", module, dep.Path)
	}
	return "", fmt.Sprintf("build information (no version of %s)", module)
}

// moduleCaches returns where the module cache may be, from the environment
// alone, in the go command's order of precedence.
func (g goEnv) moduleCaches() []string {
	if dir := g.getenv("GOMODCACHE"); dir != "" {
		return []string{dir}
	}
	if paths := filepath.SplitList(g.getenv("GOPATH")); len(paths) > 0 && paths[0] != "" {
		return []string{filepath.Join(paths[0], "pkg", "mod")}
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := g.getenv(name); home != "" {
			return []string{filepath.Join(home, "go", "pkg", "mod")}
		}
	}
	return nil
}

// escapeModule writes a module path or version as the module cache does, fit
// for file systems that ignore case: an upper-case letter becomes '!' and its
// lower case.
func escapeModule(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if filepath.Clean(v) == filepath.Clean(s) {
			return true
		}
	}
	return false
}
