package datasets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idxBytes encodes an IDX file of unsigned bytes.
func idxBytes(data []byte, dims ...uint32) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, data...)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tiny is a family of 2x2 images with 3 for training and 2 for testing, and
// the content of its gzipped files by name.
func tiny(t testing.TB) (family, map[string][]byte) {
	t.Helper()
	f := family{name: "tiny", shape: []int{1, 2, 2}, mean: 0.5, std: 0.25,
		subfolders: []string{"tiny"}, module: "example.com/Tiny"}
	content := make(map[string][]byte)
	for i, raw := range [][]byte{
		trainImages: idxBytes([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 3, 2, 2),
		trainLabels: idxBytes([]byte{7, 8, 9}, 3),
		testImages:  idxBytes([]byte{255, 254, 253, 252, 0, 0, 0, 0}, 2, 2, 2),
		testLabels:  idxBytes([]byte{0, 1}, 2),
	} {
		name := mnist.files[i].name
		z := gzipped(t, raw)
		f.files[i] = idxFile{name, int64(len(z)), sha256Hex(z)}
		content[name+".gz"] = z
	}
	return f, content
}

func sha256Hex(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func writeFiles(t testing.TB, dir string, content map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range content {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
