package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/coda-ml/coda/dist"
)

type keygenCmd struct {
	Out string `arg:"" optional:"" placeholder:"FILE" help:"File to write, readable by its owner only (default: standard output)."`
}

// Run makes a new cluster key.
func (k *keygenCmd) Run(t terminal) error {
	key := dist.NewKey()
	if k.Out != "" {
		err := key.WriteKeyFile(k.Out)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already, and a key is never replaced", k.Out)
		}
		return err
	}
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "%s\n", text)
	return err
}
