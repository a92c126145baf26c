// Package atomicfile writes files whole or not at all: to a temporary file in
// the same folder, which is synced, renamed over the old one, and made to
// last by syncing the folder. After a crash at any moment the path holds the
// old content or the new.
//
//	err := atomicfile.Write("run/model.safetensors", func(w io.Writer) error {
//		return encode(w)
//	})
//
// Calls for different paths may run at the same time; of two for the same
// path one wins.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write calls write with a buffered writer and puts what it has written at
// path, with mode 0644 or that of the file it replaces. If write or anything
// after it fails, path is left alone and nothing remains beside it. The
// folder must exist.
func Write(path string, write func(w io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	t, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			// After a successful rename there is nothing to clean up.
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), t.Cleanup())
		}
	}()
	w := bufio.NewWriterSize(t, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename in the folder last: on Linux the new name is in the
// folder's data, which fsync of the file does not write.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RenameFolder gives a finished folder its name: everything in it is synced,
// then it is renamed, then the folder that holds it is synced. The new name
// must not be taken. The files in the folder must be closed.
func RenameFolder(from, to string) error {
	if err := syncDir(from); err != nil {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(to)); err != nil {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	return nil
}
