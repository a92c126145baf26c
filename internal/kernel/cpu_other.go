//go:build !amd64 || noasm

package kernel

func nativeFamilies() []*family { return nil }
