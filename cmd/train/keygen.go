package main

type keygenCmd struct {
	Out string `arg:"" optional:"" placeholder:"FILE" help:"File to write, readable by its owner only (default: standard output)."`
}
