package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// find reads the four files from the first place that has them: Options.Dir
// and nothing else when that is set; otherwise the folders of the operating
// system's packages, the Go module, the cache folder, the mirrors.
func (f family) find(ctx context.Context, o Options, g goEnv) ([numFiles]rawFile, error) {
	if o.Dir != "" {
		return f.fromDir(o.Dir)
	}
	if ctx.Err() != nil {
		return [numFiles]rawFile{}, fmt.Errorf("find %s: %w", f.name, context.Cause(ctx))
	}
	s := search{family: f, o: o}
	for _, dir := range f.system {
		if s.try(dir) {
			return s.files, nil
		}
	}
	if f.module != "" {
		for p := range g.moduleFolders(ctx, f.module) {
			if p.dir == "" {
				s.looked = append(s.looked, p.note)
			} else if s.try(filepath.Join(p.dir, "data")) {
				return s.files, nil
			}
		}
	}
	return s.cached(ctx)
}

// fromDir reads the files from a folder that the user named.
func (f family) fromDir(dir string) (files [numFiles]rawFile, err error) {
	var looked []string
	for _, sub := range append(f.subfolders[:len(f.subfolders):len(f.subfolders)], ".") {
		folder := filepath.Join(dir, filepath.FromSlash(sub))
		paths, err := f.paths(folder)
		if err != nil {
			looked = append(looked, err.Error())
			continue
		}
		for i, path := range paths {
			if files[i], err = readFile(path); err != nil {
				return files, err
			}
		}
		return files, nil
	}
	return files, &NotFoundError{Name: f.name, Looked: looked,
		Advice: "put " + f.fileNames() + " there, gzipped or not, or name their folder with --data-dir"}
}

func (f family) fileNames() string {
	return fmt.Sprintf("its %d files (%s ..)", numFiles, f.files[0].name)
}

// paths returns the files of a folder that has all four of them, and otherwise
// an error that says what is wrong with it.
func (f family) paths(dir string) (paths [numFiles]string, err error) {
	if info, err := os.Stat(dir); isMissing(err) {
		return paths, fmt.Errorf("%s (no such folder)", dir)
	} else if err != nil {
		return paths, err
	} else if !info.IsDir() {
		return paths, fmt.Errorf("%s (not a folder)", dir)
	}
	var missing []string
	for i, file := range f.files {
		// Some archives write a dot before idx.
		dotted := strings.Replace(file.name, "-idx", ".idx", 1)
		for _, name := range []string{file.name + ".gz", file.name, dotted + ".gz", dotted} {
			path := filepath.Join(dir, name)
			_, err := os.Stat(path)
			if err == nil {
				paths[i] = path
				break
			}
			if !isMissing(err) {
				return paths, err
			}
		}
		if paths[i] == "" {
			missing = append(missing, file.name)
		}
	}
	if len(missing) == numFiles {
		return paths, fmt.Errorf("%s (none of its files)", dir)
	}
	if len(missing) > 0 {
		return paths, fmt.Errorf("%s (no %s)", dir, strings.Join(missing, ", "))
	}
	return paths, nil
}

// search is one search for a data set in the places that the user did not name.
type search struct {
	family
	o      Options
	files  [numFiles]rawFile
	looked []string // places without the data, each with the reason
}

// try reads and verifies the files of a folder. A folder with damaged files is
// as good as one without: the reason is kept and the search goes on.
func (s *search) try(dir string) bool {
	paths, err := s.paths(dir)
	if err != nil {
		s.looked = append(s.looked, err.Error())
		return false
	}
	for i, path := range paths {
		if s.files[i], err = readFile(path); err == nil {
			err = s.family.files[i].verify(s.files[i])
		}
		if err != nil {
			s.o.Log.Warn("data set files not used", "dataset", s.name, "folder", dir, "error", err)
			s.looked = append(s.looked, fmt.Sprintf("%s (%v)", dir, err))
			return false
		}
	}
	s.o.Log.Debug("data set found", "dataset", s.name, "folder", dir)
	return true
}

// cached takes the files from the cache folder, into which it downloads what
// is missing.
func (s *search) cached(ctx context.Context) ([numFiles]rawFile, error) {
	advice := strings.TrimSpace(s.advice + " name the folder of " + s.fileNames() + " with --data-dir")
	fail := func(err error) ([numFiles]rawFile, error) {
		return s.files, &NotFoundError{Name: s.name, Looked: s.looked, Advice: advice, Err: err}
	}
	mirrors := s.o.Mirrors
	if mirrors == nil {
		mirrors = s.mirrors
	}
	if s.family.files[0].sha256 == "" {
		// Without checksums nothing is ever put into the cache.
		return fail(nil)
	}
	root := s.o.CacheDir
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			s.looked = append(s.looked, fmt.Sprintf("the user's cache folder (%v)", err))
			return fail(err)
		}
		root = filepath.Join(base, "coda")
	}
	dir := filepath.Join(root, s.name)
	if s.try(dir) {
		return s.files, nil
	}
	switch {
	case s.o.Offline:
		s.looked = append(s.looked, "no mirror (offline)")
		advice += ", or allow downloading"
		return fail(nil)
	case len(mirrors) == 0:
		s.looked = append(s.looked, "no mirror (none is known)")
		return fail(nil)
	}
	if err := download(ctx, s.o, mirrors, dir, s.family.files[:]); err != nil {
		s.looked = append(s.looked, err.Error())
		return fail(err)
	}
	if !s.try(dir) {
		return fail(errors.New("downloaded files changed on disk"))
	}
	return s.files, nil
}
