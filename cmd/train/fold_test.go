package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Folding keeps the words and their order, and no line is longer than it has to be.
func TestParagraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zäé°]{1,90}`), 1, 60).Draw(t, "words")
		indent := strings.Repeat(" ", rapid.IntRange(0, 8).Draw(t, "indent"))
		got := paragraph(indent, "%s", strings.Join(words, " "))
		if folded := strings.Fields(got); strings.Join(folded, " ") != strings.Join(words, " ") {
			t.Fatalf("%q became %q", words, folded)
		}
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		for i, line := range lines {
			width := utf8.RuneCountInString(line)
			if i > 0 && !strings.HasPrefix(line, indent) {
				t.Fatalf("line %d is not indented: %q", i+1, line)
			}
			if width > pageWidth && strings.Contains(strings.TrimPrefix(line, indent), " ") {
				t.Fatalf("line %d is %d wide: %q", i+1, width, line)
			}
			if i == len(lines)-1 {
				break
			}
			next := strings.Fields(lines[i+1])[0]
			if width+1+utf8.RuneCountInString(next) <= pageWidth {
				t.Fatalf("line %d has room for %q: %q", i+1, next, line)
			}
		}
	})
}
