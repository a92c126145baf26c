package kernel

import "sync"

// itemMemory is what the computation of an item needs.
type itemMemory struct {
	a, b, c []float32
	item    item
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
// a product at most sharedLimit elements (or a block of k of mr rows) and mostTurned.
var (
	itemMemories = freeList[itemMemory]{most: 64}
	gemms        = freeList[gemm]{most: 8}
)
