package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAVX2Registers: kernels for AVX2 use no register that only AVX-512 has. The
// assembler would take them, and a processor without AVX-512 stop.
func TestAVX2Registers(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("assembly: %v, %v", files, err)
	}
	beyond := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|Z\d+|K\d)\b`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Split(string(text), "\nTEXT ")[1:] {
			if name, body, _ := strings.Cut(f, "("); strings.HasSuffix(name, "AVX2") {
				if found := beyond.FindString(body); found != "" {
					t.Errorf("%s: %s uses %s", file, name, found)
				}
			}
		}
	}
}
