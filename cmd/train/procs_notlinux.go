//go:build !linux

package main

import "os/exec"

// begin starts the process of a worker.
func begin(cmd *exec.Cmd) error { return cmd.Start() }
