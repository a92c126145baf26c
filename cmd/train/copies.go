package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coda-ml/coda/internal/atomicfile"
)

// copiesName is the file in a checkpoint's folder that tells which copies of their
// shards the workers kept for it. A checkpoint without it is whole all the same:
// its layers are then encoded and sent.
const copiesName = "copies.json"

// copies is its content.
type copies struct {
	Run    string `json:"run"`    // of the cluster
	Number uint64 `json:"number"` // of dist's Keep
}

// keepCopies makes the workers keep copies of their shards for a checkpoint that
// has been written.
func (c *cluster) keepCopies(checkpoint string) error {
	text, err := json.Marshal(copies{c.coordinator.Run(), c.coordinator.Keep()})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(checkpoint, copiesName), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// readCopies reads what was kept for a checkpoint; nothing is no error.
func readCopies(checkpoint string) (c copies, err error) {
	if checkpoint == "" {
		return c, nil
	}
	path := filepath.Join(checkpoint, copiesName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return copies{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
