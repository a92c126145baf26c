package nn

import (
	"testing"
	"unsafe"
)

// spans of memory overlap if they have a byte in common.
func overlap(a, b []float32) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	at := func(x []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }
	return at(a) < at(b)+4*uintptr(len(b)) && at(b) < at(a)+4*uintptr(len(a))
}

// TestSharedMemoryIsApart: no operation writes where something is that will
// still be read, checked operation by operation; and some memory is shared.
func TestSharedMemoryIsApart(t *testing.T) {
	for name, build := range map[string]func() (Sequential, []int){
		"small": smallNet, "odd": oddNet, "normalised": normalisedNet, "branching": branchingNet, "layers": layersNet,
	} {
		for _, training := range []bool{true, false} {
			model, shape := build()
			net := newNetwork(t, model, shape, Config{Threads: 1})
			x, labels := batchFor(shape, 4, 1)
			var err error
			if training {
				_, _, err = net.Train(t.Context(), 1, x, labels)
			} else {
				_, _, err = net.Evaluate(t.Context(), x, labels)
			}
			if err != nil {
				t.Fatal(err)
			}
			p := net.programs[0]
			if shared := checkApart(t, name, p); shared == 0 && name != "odd" { // which is too small
				t.Errorf("%s, training %v: nothing shares memory", name, training)
			}
		}
	}
}

// checkApart returns how many operations write where another has written.
func checkApart(t *testing.T, name string, p *program) (shared int) {
	t.Helper()
	ops := p.g.ops
	read := func(o *op) (last int) { // the last that reads o
		if o == p.logits {
			return len(ops)
		}
		for _, pg := range p.grads {
			if pg.node == o.node {
				return len(ops)
			}
		}
		for i, by := range ops {
			for _, n := range by.in {
				if n == o.node {
					last = i
				}
			}
		}
		return last
	}
	written := func(o *op) int { // when it gets its value
		if o.producer != nil {
			return o.producer.seq
		}
		return o.seq
	}
	for _, a := range ops {
		for _, b := range ops {
			if a == b || !overlap(a.buf, b.buf) {
				continue
			}
			shared++
			if written(a) <= written(b) && (read(a) >= written(b) || a.producer == b || b.producer == a || a.producer != nil && a.producer == b.producer) {
				t.Errorf("%s: %v (written at %d, read until %d) shares memory with %v (written at %d)", name, a, written(a), read(a), b, written(b))
			}
		}
	}
	return shared
}

// TestArena: memory is taken again, the latest first, if it fits.
func TestArena(t *testing.T) {
	var a arena
	small, large, other := a.take(10), a.take(30), a.take(12)
	for _, m := range [][]float32{small, large, other} {
		a.give(m)
	}
	for i, c := range []struct {
		n    int
		want []float32
	}{{10, other}, {10, small}, {10, nil}, {16, large}, {30, nil}} {
		got := a.take(c.n)
		if len(got) != c.n || c.want != nil && !overlap(got, c.want) || c.want == nil && (overlap(got, small) || overlap(got, large) || overlap(got, other)) {
			t.Errorf("take %d: %d numbers, not from where they were wanted", i, len(got))
		}
	}
}

// TestForeignGraphsShareNothing: what gorgonia's own operations return may be
// their input.
func TestForeignGraphsShareNothing(t *testing.T) {
	net := newNetwork(t, Sequential{NewLinear(newRand(1), 4, 4), foreign{}, NewLinear(newRand(2), 4, 3)}, []int{4}, Config{Threads: 1})
	x, labels := batchFor([]int{4}, 5, 8)
	if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	if shared := checkApart(t, "foreign", net.programs[0]); shared != 0 {
		t.Errorf("%d operations share memory", shared)
	}
}
