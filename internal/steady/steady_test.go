package steady_test

import (
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

var sink []byte

// leak allocates size bytes in every call.
func leak(size int) func() { return func() { sink = make([]byte, size) } }

// settling allocates in its first calls only.
func settling(calls int) func() {
	return func() {
		if calls > 0 {
			calls--
			sink = make([]byte, 1<<20)
		}
	}
}

func TestBytes(t *testing.T) {
	const size = 1 << 16
	if got := steady.Bytes(3, leak(size)); got < size || got > 2*size {
		t.Errorf("%d bytes a call of a function that allocates %d", got, size)
	}
	if got := steady.Bytes(3, settling(5)); got >= 1<<16 {
		t.Errorf("%d bytes a call of a function that has settled", got)
	}
}

func TestAllocs(t *testing.T) {
	if got := steady.Allocs(3, leak(1<<10)); got < 1 {
		t.Errorf("%g allocations a call of a function that makes one", got)
	}
	if got := steady.Allocs(3, settling(7)); got > 0 {
		t.Errorf("%g allocations a call of a function that has settled", got)
	}
}
