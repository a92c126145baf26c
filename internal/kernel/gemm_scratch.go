package kernel

import "sync"

// scratch is the memory of one item.
type scratch struct {
	a, b []float32
	item item
}

// freeList keeps a few objects for reuse, so that steady work allocates nothing.
type freeList[T any] struct {
	mu   sync.Mutex
	free []*T
	most int // objects kept
}

func (l *freeList[T]) get() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.free) - 1
	if last < 0 {
		return new(T)
	}
	x := l.free[last]
	l.free = l.free[:last]
	return x
}

func (l *freeList[T]) put(x *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < l.most {
		l.free = append(l.free, x)
	}
}

// At most some dozens of megabytes are held: an item has less than a megabyte,
// a product at most sharedLimit elements (or a block of k of mr rows).
var (
	scratches = freeList[scratch]{most: 64}
	gemms     = freeList[gemm]{most: 8}
)

// grow returns s with length n; its elements are arbitrary.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
