//go:build !amd64 || noasm

package kernel

import "runtime"

// pause spends a short while of a spinning wait.
func pause() { runtime.Gosched() }
