package main

import (
	"fmt"

	"github.com/coda-ml/coda/dist"
)

type keygenCmd struct {
	Out string `arg:"" optional:"" placeholder:"FILE" help:"File to write, readable by its owner only (default: standard output)."`
}

// Run makes a new cluster key.
func (k *keygenCmd) Run(t terminal) error {
	key := dist.NewKey()
	if k.Out != "" {
		return key.WriteKeyFile(k.Out)
	}
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.stdout, "%s\n", text)
	return err
}
