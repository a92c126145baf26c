package kernel

// Pool runs parts of a computation on a fixed number of goroutines.
// A nil *Pool runs everything on the caller's goroutine.
type Pool struct {
	threads int
}

// NewPool returns a pool that computes on the given number of goroutines, the caller's included.
func NewPool(threads int) *Pool { return &Pool{threads: threads} }

// Threads returns the number of goroutines that the pool computes on.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// Close ends the pool's goroutines. The pool must not be used afterwards.
func (p *Pool) Close() {}

// Run calls f(0) .. f(n-1), each once, in any order, on the pool's goroutines, and returns when all have returned.
func (p *Pool) Run(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}
