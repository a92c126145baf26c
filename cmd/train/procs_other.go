//go:build !unix

package main

import (
	"os"
	"os/exec"
	"time"
)

func detach(*exec.Cmd) {}

// Processes cannot be frozen here: sending these signals is an error that says so.
var (
	stopSignal     os.Signal = os.Interrupt
	continueSignal os.Signal = os.Interrupt
)

func resume(*os.Process) {}

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
