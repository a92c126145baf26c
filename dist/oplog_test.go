package dist

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

// Updates with large operands are kept in smaller numbers, but never fewer than the least.
func TestOpLogReach(t *testing.T) {
	for _, c := range []struct{ bytes, want int }{
		{0, 8}, {logBytes / 8, 8}, {logBytes/8 + 1, 7}, {logBytes / 4, 4}, {logBytes / 3, 3}, {logBytes, 3}, {4 * logBytes, 3},
	} {
		o := opLog{keep: 8, least: 3, bytes: c.bytes}
		if got := o.reach(); got != c.want {
			t.Errorf("with operands of %d bytes an update the log reaches back over %d, want %d", c.bytes, got, c.want)
		}
	}
}

// The log reaches back over its last updates, and gives every buffer back.
func TestOpLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 5).Draw(t, "keep")
		o := opLog{keep: keep}
		var pool bufferPool
		var all []entry // what a log without end would hold
		var held []*counted
		version := 0
		for range rapid.IntRange(0, 40).Draw(t, "entries") {
			if rapid.Bool().Draw(t, "update") {
				version++
				all = append(all, entry{version: version})
			} else {
				operand := pool.copyOf(coded.NewTensor(2))
				held = append(held, operand.retain())
				all = append(all, entry{operand: operand, version: version})
			}
			if pos := o.add(all[len(all)-1]); pos != uint64(len(all)-1) {
				t.Fatalf("entry %d got position %d", len(all)-1, pos)
			}
		}
		if o.end() != uint64(len(all)) || o.updates > keep {
			t.Fatalf("the log ends at %d with %d updates, want %d with at most %d", o.end(), o.updates, len(all), keep)
		}
		for pos := range all {
			e := o.at(uint64(pos))
			if (e == nil) != (uint64(pos) < o.base) || e != nil && (e.version != all[pos].version || e.operand != all[pos].operand) {
				t.Fatalf("position %d with base %d holds %+v", pos, o.base, e)
			}
		}
		for v := range version + 1 {
			pos, ok := o.after(v)
			if ok != (v >= version-keep) {
				t.Fatalf("of %d updates the log reaches back to %d: %v, keeping %d", version, v, ok, keep)
			}
			if ok && pos > 0 && (!all[pos-1].isUpdate() || all[pos-1].version != v) {
				t.Fatalf("after update %d is position %d, which follows %+v", v, pos, all[pos-1])
			}
			if v == version && pos != o.newest() {
				t.Fatalf("the newest update ends at %d, after says %d", o.newest(), pos)
			}
		}
		o.clear()
		for i, operand := range held {
			if n := operand.refs.Load(); n != 1 {
				t.Fatalf("operand %d has %d references beside ours after clear", i, n-1)
			}
			operand.release()
		}
	})
}

func TestBufferPool(t *testing.T) {
	var pool bufferPool
	freed := 0
	a := pool.copyOf(coded.Tensor{Shape: []int{3}, Data: []float32{1, 2, 3}})
	a.freed = func(n int) { freed += n }
	first := &a.tensor.Data[0]
	a.retain()
	a.release()
	if freed != 0 {
		t.Error("given back while somebody holds it")
	}
	a.release()
	if freed != 12 {
		t.Errorf("%d bytes freed, want 12", freed)
	}
	if b := pool.take(3); &b[0] != first {
		t.Error("memory of the same size is not used again")
	}
	// Ever new sizes, of which none is asked for again, do not pile up.
	pool.most = 1000
	for size := range 300 {
		pool.give(make([]float32, size))
		if kept := len(slices.Concat(slices.Concat(slices.Collect(maps.Values(pool.free))...)...)); kept != pool.kept || kept > 1000 {
			t.Fatalf("the pool keeps %d values and counts %d, want at most 1000", kept, pool.kept)
		}
	}
	pool.give(make([]float32, 1001))
	if len(pool.free[1001]) != 0 || len(pool.free[299]) != 1 {
		t.Error("what is too large drives out what is not")
	}
	defer func() {
		if recover() == nil {
			t.Error("one release too many passes unnoticed")
		}
	}()
	a.release()
}

func TestRoundDeadline(t *testing.T) {
	d := newRoundDeadline(30*time.Second, 2*time.Second, 20*time.Second)
	if got := d.limit(); got != 30*time.Second {
		t.Errorf("first deadline is %v", got)
	}
	for range deadlineWarmUp {
		d.observe(time.Millisecond)
	}
	if got := d.limit(); got != 2*time.Second {
		t.Errorf("deadline after quick rounds is %v, want the least, 2 s", got)
	}
	for range 256 {
		d.observe(time.Second)
	}
	if got := d.limit(); got != 8*time.Second {
		t.Errorf("deadline after rounds of 1 s is %v, want 8 s", got)
	}
	for range 10 { // 4 percent of the last 256
		d.observe(time.Minute)
	}
	if got := d.limit(); got != 20*time.Second {
		t.Errorf("deadline after some of a minute is %v, want the largest, 20 s", got)
	}
	for range 256 {
		d.observe(time.Second)
	}
	if got := d.limit(); got != 8*time.Second {
		t.Errorf("what is long ago still counts: deadline %v, want 8 s", got)
	}
}
