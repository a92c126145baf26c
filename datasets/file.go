package datasets

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// maxFile bounds the size of the files that belong to a data set.
const maxFile = 256 << 20

// rawFile is a file read into memory.
type rawFile struct {
	path string
	data []byte
}

// readFile reads a file whole.
func readFile(path string) (rawFile, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return rawFile{}, err
	}
	defer f.Close() // only read
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return rawFile{}, fmt.Errorf("read %s: %w", path, err)
	}
	return rawFile{path, data}, nil
}

// openRegular opens a file, which must be a regular one of at most maxFile
// bytes, and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	// Opening a pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, 0, &FileError{Path: path, Problem: "unusable", Kind: ErrFormat,
			Found: fmt.Sprintf("%s of %d bytes", info.Mode().Type(), info.Size()),
			Want:  fmt.Sprintf("a regular file of at most %d bytes", maxFile)}
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

// isMissing tells that a path does not exist.
func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
