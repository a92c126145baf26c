package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// pageWidth is how wide what people read is at most, where names do not make it wider.
const pageWidth = 80

// paragraph formats a text of one line and folds it at spaces into lines of pageWidth;
// all but the first begin with indent.
func paragraph(indent, format string, args ...any) string {
	b := &strings.Builder{}
	column := 0
	for i, word := range strings.Split(fmt.Sprintf(format, args...), " ") {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+width <= pageWidth:
			b.WriteByte(' ')
			column++
		default:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		}
		b.WriteString(word)
		column += width
	}
	b.WriteByte('\n')
	return b.String()
}

// widest is the width of a column: that of its head or of its longest entry.
func widest[T any](head string, list []T, entry func(T) string) int {
	width := utf8.RuneCountInString(head)
	for _, v := range list {
		width = max(width, utf8.RuneCountInString(entry(v)))
	}
	return width
}
