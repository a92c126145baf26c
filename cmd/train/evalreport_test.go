package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// made is a report of classes of 50 images, each of which takes as many for
// the next class as its number says.
func made(classes int, name string) *evalReport {
	r := &evalReport{Model: "m", Dataset: "d", Checkpoint: "c", Images: 50 * classes}
	for i := range classes {
		row := make([]int, classes)
		wrong := min(i, 49)
		row[i], row[(i+1)%classes] = 50-wrong, wrong
		r.Confusion = append(r.Confusion, row)
		r.Classes = append(r.Classes, evalClass{Class: fmt.Sprint(name, i), Images: 50})
	}
	return r
}

// However many classes there are and whatever their names, the report fits a
// terminal.
func TestReportFits(t *testing.T) {
	for _, classes := range []int{2, maxMatrix, maxMatrix + 1, 100} {
		for _, name := range []string{"", "an uncommonly long name of a class — number "} {
			for _, line := range strings.Split(made(classes, name).text(), "\n") {
				if n := utf8.RuneCountInString(line); n > 100 {
					t.Errorf("%d classes: a line of %d characters: %s", classes, n, line)
				}
			}
		}
	}
}

func TestReportText(t *testing.T) {
	small := made(3, "class").text()
	for _, want := range []string{"\nclass0       50 ", "class2 (1)", "\ntaken for    0   1   2\n 0 class0   50   0   0\n 1 class1    0  49   1\n 2 class2    2   0  48\n"} {
		if !strings.Contains(small, want) {
			t.Errorf("%s\nwant it to have %q", small, want)
		}
	}
	large := made(20, "class").text()
	if !strings.Contains(large, "\ncommonest confusions (the whole matrix: --json)\n   19 of    50  class19 taken for class0\n   18 of    50  class18 taken for class19\n") {
		t.Errorf("the commonest confusions are not the first:\n%s", large)
	}
	if n := strings.Count(large, " of    50  "); n != 19 { // class0 takes none for another
		t.Errorf("%d confusions are listed, want 19", n)
	}
}
