//go:build unix

package atomicfile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coda-ml/coda/internal/atomicfile"
	"github.com/coda-ml/coda/internal/fulldisk"
)

// TestFullDisk: the system takes no more bytes in the middle of the file.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, write("old")); err != nil {
		t.Fatal(err)
	}
	release := fulldisk.Limit(t, 100_000)
	err := atomicfile.Write(path, write(strings.Repeat("new", 100_000)))
	release()
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want %v with the path", err, syscall.EFBIG)
	}
	wantFolder(t, path, "old")
}
