//go:build !noasm

package kernel

// pause spends a short while of a spinning wait, kindly to the other hyperthread.
//
//go:noescape
func pause()
