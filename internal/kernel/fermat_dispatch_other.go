//go:build !amd64 || noasm

package kernel

func nativeFermatEngines() []fermatEngine { return nil }
