package datasets

import (
	"bytes"
	"context"
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
	var files [numFiles]rawFile
	s := search{
		name: f.name, advice: f.advice, files: f.fileNames(), mirrors: f.mirrors, o: o,
		read: func(dir string) (err error) {
			files, err = f.read(dir)
			return err
		},
	}
	for _, file := range f.files {
		s.assets = append(s.assets, file.asset())
	}
	for _, dir := range f.system {
		if s.try(dir) {
			return files, nil
		}
	}
	if f.module != "" {
		for p := range g.moduleFolders(ctx, f.module) {
			if p.dir == "" {
				s.looked = append(s.looked, p.note)
			} else if s.try(filepath.Join(p.dir, "data")) {
				return files, nil
			}
		}
	}
	err := s.cached(ctx)
	return files, err
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
	names := make([]string, numFiles)
	for i, file := range f.files {
		names[i] = file.name
	}
	return enumerate(names)
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

// read reads and verifies the files of a folder that the user did not name.
func (f family) read(dir string) (files [numFiles]rawFile, err error) {
	paths, err := f.paths(dir)
	if err != nil {
		return files, err
	}
	for i, path := range paths {
		if files[i], err = readFile(path); err != nil {
			return files, err
		}
		if err := f.files[i].asset().verify(path, bytes.NewReader(files[i].data)); err != nil {
			return files, err
		}
	}
	return files, nil
}
