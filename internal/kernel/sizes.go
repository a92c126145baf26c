package kernel

func ceilDiv(x, y int) int { return (x + y - 1) / y }

func roundUp(x, unit int) int { return ceilDiv(x, unit) * unit }

// grow returns s with length n; its elements are arbitrary.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
