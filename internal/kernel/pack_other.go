//go:build !amd64 || noasm

package kernel

func packAlongVec(_, _ []float32, _, _, _, _ int) bool { return false }

func packAcrossVec(_, _ []float32, _, _, _, _ int) (rows, steps int) { return 0, 0 }
