package dist

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

// now is a time for schedules that do not depend on it.
var now = time.Unix(1e9, 0)

func codeOf(t interface{ Fatal(...any) }, spec coded.Spec) *coded.Code {
	code, err := coded.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Whatever the order of completions, failures and returns: a slot never gets a
// chunk that it is at work on or has done; a ready chunk can be decoded from
// what it reports; and the round ends exactly when enough slots live on.
func TestRoundEndsWheneverItCan(t *testing.T) {
	specs := []coded.Spec{
		{Name: "trigonometric", N: 6, K: 4}, {Name: "trigonometric", N: 5, K: 1}, {Name: "uncoded", N: 3, K: 3},
		{Name: "replication", N: 6, K: 3}, {Name: "replication", N: 9, K: 3},
	}
	rapid.Check(t, func(t *rapid.T) {
		code := codeOf(t, rapid.SampledFrom(specs).Draw(t, "code"))
		n, chunks := code.N(), rapid.IntRange(1, 7).Draw(t, "chunks")
		c := newCover(code, chunks)
		now := now
		c.reset(nil, time.Duration(rapid.IntRange(0, 3).Draw(t, "patience")))
		alive := make([]bool, n)
		for i := range alive {
			alive[i] = true
		}
		at := make([][]int, n)          // by slot: chunks at work
		done := make(map[[2]int]bool)   // slot, chunk
		finished := make([]int, chunks) // results used, by chunk
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "time")))
			slot := rapid.IntRange(0, n-1).Draw(t, "slot")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0: // die
				alive[slot], at[slot] = false, nil
				c.lose(slot)
			case 1: // come back
				alive[slot] = true
			case 2, 3: // take
				chunk, _, ok := c.next(slot, false, now)
				if !ok || !alive[slot] {
					continue
				}
				if done[[2]int{slot, chunk}] || slices.Contains(at[slot], chunk) || c.ready[chunk] {
					t.Fatalf("slot %d is given chunk %d again, or when it is ready", slot, chunk)
				}
				c.start(slot, chunk, now)
				at[slot] = append(at[slot], chunk)
			default: // finish
				if len(at[slot]) > 0 {
					finishOne(t, c, slot, at, done, finished)
				}
			}
		}
		possible := sufficientWith(code, alive, done, chunks)
		if got := c.feasible(func(s int) bool { return alive[s] }); got != possible {
			t.Fatalf("feasible is %v, want %v", got, possible)
		}
		workOn(t, c, alive, at, done, finished, now)
		if (c.left == 0) != possible {
			t.Fatalf("%d chunks are left although a sufficient set lives: %v", c.left, possible)
		}
		for chunk := range chunks {
			if answers := c.answers(chunk); c.ready[chunk] && (!sufficient(code, answers) || len(answers) != finished[chunk]) {
				t.Fatalf("chunk %d is ready with %v, of which %d were useful", chunk, answers, finished[chunk])
			}
		}
	})
}

// workOn lets the living slots work until none of them has anything to do.
func workOn(t *rapid.T, c *cover, alive []bool, at [][]int, done map[[2]int]bool, finished []int, now time.Time) {
	for progress := true; progress; {
		progress = false
		for slot := range alive {
			if !alive[slot] {
				continue
			}
			chunk, after, ok := c.next(slot, false, now)
			if ok {
				c.start(slot, chunk, now)
				at[slot] = append(at[slot], chunk)
			}
			if after > 0 { // it has only to be patient
				progress = true
				now = now.Add(after)
			}
			if len(at[slot]) > 0 {
				progress = true
				finishOne(t, c, slot, at, done, finished)
			}
		}
	}
}

func finishOne(t *rapid.T, c *cover, slot int, at [][]int, done map[[2]int]bool, finished []int) {
	chunk := at[slot][0]
	at[slot] = at[slot][1:]
	was := c.ready[chunk]
	useful, ready := c.finish(slot, chunk)
	if useful == was || ready && !useful || ready != (c.ready[chunk] && !was) {
		t.Fatalf("slot %d finished chunk %d, ready before: %v, after: %v, useful: %v, became ready: %v", slot, chunk, was, c.ready[chunk], useful, ready)
	}
	if useful {
		done[[2]int{slot, chunk}] = true
		finished[chunk]++
	}
	if again, _ := c.finish(slot, chunk); again {
		t.Fatalf("slot %d finished chunk %d twice", slot, chunk)
	}
}

// sufficientWith tells whether the living and what is done decode every chunk.
func sufficientWith(code *coded.Code, alive []bool, done map[[2]int]bool, chunks int) bool {
	for chunk := range chunks {
		var slots []int
		for s := range alive {
			if alive[s] || done[[2]int{s, chunk}] {
				slots = append(slots, s)
			}
		}
		if !sufficient(code, slots) {
			return false
		}
	}
	return true
}

// With sets, a chunk is done by exactly the slots of its set.
func TestRoundWithSets(t *testing.T) {
	code := codeOf(t, trig64)
	c := newCover(code, 2)
	c.reset([][]int{{0, 1, 2, 3}, {2, 3, 4, 5}}, 0)
	if !c.feasible(func(s int) bool { return true }) || c.feasible(func(s int) bool { return s != 5 }) {
		t.Error("feasible must ask for every slot of the sets")
	}
	for slot := range 6 {
		for {
			chunk, _, ok := c.next(slot, false, now)
			if !ok {
				break
			}
			if !slices.Contains(c.sets[chunk], slot) {
				t.Fatalf("slot %d is given chunk %d of %v", slot, chunk, c.sets[chunk])
			}
			c.start(slot, chunk, now)
			c.finish(slot, chunk)
		}
	}
	if c.left != 0 || !slices.Equal(c.answers(0), []int{0, 1, 2, 3}) || !slices.Equal(c.answers(1), []int{2, 3, 4, 5}) {
		t.Errorf("%d chunks left, answers %v and %v", c.left, c.answers(0), c.answers(1))
	}
	c.reset([][]int{{0, 1, 2, 3}, {0, 1, 2, 3}}, 0)
	for _, slot := range []int{1, 2, 3} {
		c.start(slot, 0, now)
		c.finish(slot, 0)
	}
	if ready := c.reselect([][]int{{1, 2, 3}, {1, 2, 3, 4}}); !slices.Equal(ready, []int{0}) {
		t.Errorf("after another selection %v are ready, want chunk 0", ready)
	}
}

// Slots spread over the chunks from their own offsets, and double up on
// stragglers only when nothing else is left.
func TestRoundOrder(t *testing.T) {
	code := codeOf(t, coded.Spec{Name: "trigonometric", N: 4, K: 2})
	c := newCover(code, 4)
	var order []int
	for range 2 {
		for slot := range 4 {
			chunk, _, ok := c.next(slot, false, now)
			if !ok {
				t.Fatalf("nothing for slot %d", slot)
			}
			c.start(slot, chunk, now)
			order = append(order, chunk)
		}
	}
	if want := []int{0, 1, 2, 3, 1, 2, 3, 0}; !slices.Equal(order, want) {
		t.Errorf("chunks were given in the order %v, want %v", order, want)
	}
	// Every chunk is at work twice, which is enough; slot 3 alone goes on.
	c.finish(3, 3)
	if chunk, _, ok := c.next(3, false, now); !ok || chunk != 1 && chunk != 2 {
		t.Errorf("slot 3 is given chunk %d (%v), want to double up on 1 or 2", chunk, ok)
	}
	if chunk, _, ok := c.next(3, true, now); ok {
		t.Errorf("slot 3, which is busy, is to double up on chunk %d", chunk)
	}
	c.lose(0) // 0 and 1 are at work once only
	if chunk, _, ok := c.next(3, false, now); !ok || chunk != 1 {
		t.Errorf("slot 3 is given chunk %d (%v), want 1, which has lost its cover", chunk, ok)
	}
}

// A slot doubles up on a chunk only when those at work on it have had their time,
// and again only when the one that did so has.
func TestRoundIsPatient(t *testing.T) {
	code := codeOf(t, coded.Spec{Name: "trigonometric", N: 4, K: 1})
	c := newCover(code, 2)
	c.reset(nil, 10)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	c.start(0, 0, at(0))
	c.start(1, 1, at(4))
	if chunk, after, ok := c.next(2, false, at(5)); ok || after != 5 {
		t.Errorf("after 5 of 10, slot 2 is given chunk %d (%v) or is to wait for %d, want 5", chunk, ok, after)
	}
	if _, after, ok := c.next(2, true, at(20)); ok || after != 0 {
		t.Errorf("a busy slot is to double up (%v) or to wait for %d", ok, after)
	}
	if chunk, _, ok := c.next(2, false, at(10)); !ok || chunk != 0 {
		t.Fatalf("after 10, slot 2 is given chunk %d (%v), want 0, which has had its time", chunk, ok)
	}
	c.start(2, 0, at(10))
	if _, after, ok := c.next(3, false, at(11)); ok || after != 3 {
		t.Errorf("slot 3 is given a chunk (%v) or is to wait for %d, want 3 for chunk 1", ok, after)
	}
	c.lose(1)
	if chunk, _, ok := c.next(3, false, at(11)); !ok || chunk != 1 {
		t.Errorf("slot 3 is given chunk %d (%v), want 1, which nobody is at work on", chunk, ok)
	}
}

func BenchmarkRoundNext(b *testing.B) {
	code := codeOf(b, coded.Spec{Name: "trigonometric", N: 8, K: 6})
	c := newCover(code, 24)
	b.ReportAllocs()
	for b.Loop() {
		c.reset(nil, 0)
		for c.left > 0 {
			for slot := range 8 {
				if chunk, _, ok := c.next(slot, false, now); ok {
					c.start(slot, chunk, now)
					c.finish(slot, chunk)
				}
			}
		}
	}
}
