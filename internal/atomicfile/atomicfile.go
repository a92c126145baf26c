// Package atomicfile writes files whole or not at all: to a temporary file in
// the same folder, which is synced, renamed over the old one, and made to
// last by syncing the folder. After a crash at any moment the path holds the
// old content or the new.
//
//	err := atomicfile.Write("run/model.safetensors", func(w io.Writer) error {
//		return encode(w)
//	})
//
// Windows cannot sync a folder: there the file is whole, but after a crash of
// the machine it may be the old one.
//
// Calls for different paths may run at the same time; of two for the same
// path one wins.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write calls write with a buffered writer and puts what it has written at
// path, with mode 0644 or that of the file it replaces. If write or anything
// up to the renaming fails, path is left alone and nothing remains beside it.
// The folder must exist.
func Write(path string, write func(w io.Writer) error) error {
	mode, err := modeOf(path)
	if err == nil {
		err = put(path, mode, write, os.Rename)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Create is Write for a file of the given mode that must not be there yet: one
// that is stays as it is, and the error is of kind fs.ErrExist.
func Create(path string, mode fs.FileMode, write func(w io.Writer) error) error {
	// A link, unlike a rename, fails if the name is taken.
	place := func(temp, path string) error { return errors.Join(os.Link(temp, path), os.Remove(temp)) }
	if err := put(path, mode, write, place); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// put writes a temporary file and lets place give it its name.
func put(path string, mode fs.FileMode, write func(w io.Writer) error, place func(temp, path string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.part") // mode 0600
	if err != nil {
		return err
	}
	if err = fill(f, mode, write); err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		if again := os.Remove(f.Name()); !errors.Is(again, fs.ErrNotExist) {
			err = errors.Join(err, again)
		}
		return err
	}
	return syncFolder(dir)
}

// modeOf returns the mode for a new file at path. What is there must be a
// regular file, because a rename would replace a link or a device as well.
func modeOf(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o644, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("it is there and has mode %v, want a regular file", info.Mode())
	}
	return info.Mode().Perm(), nil
}

// fill writes, syncs and closes the file. Without the sync the renamed file
// may be empty after a crash.
func fill(f *os.File, mode fs.FileMode, write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<16)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	return errors.Join(err, f.Close())
}

// RenameFile gives a finished file its name, in place of any file that has it,
// and syncs the folder. The file must be closed and synced; both names must be
// in the same folder.
func RenameFile(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("rename file %s: %w", from, err)
	}
	return nil
}

// RenameFolder gives a finished folder its name: the folder is synced, then it
// is renamed, then the folder that holds it is synced. The files in it must be
// closed and synced, as those of Write are. The new name must not be taken.
func RenameFolder(from, to string) error {
	if err := rename(from, to); err != nil {
		return fmt.Errorf("rename folder %s: %w", from, err)
	}
	return nil
}

func rename(from, to string) error {
	// A rename would replace an empty folder.
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "rename to", Path: to, Err: fs.ErrExist}
		}
		return err
	}
	if err := syncFolder(from); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// syncFolder makes the names in a folder last: they are the folder's data,
// which syncing the files does not write.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
