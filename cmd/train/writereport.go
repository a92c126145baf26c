package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// readable is a result for people; as JSON it is one for programs.
type readable interface{ text() string }

// writeReport writes a result for people, and to path as one JSON object. The path
// "-" is standard output, where then is nothing else.
func writeReport(t terminal, path string, r readable) error {
	if path == "-" {
		return jsonSink{t.stdout}.emit(r)
	}
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := errors.Join(jsonSink{f}.emit(r), f.Close()); err != nil {
			return err
		}
	}
	_, err := io.WriteString(t.stdout, r.text())
	return err
}
