//go:build !amd64 || noasm

package kernel

func nativeConvISAs() []*convISA { return nil }
