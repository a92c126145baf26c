package dist

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

func codeOf(t interface{ Fatal(...any) }, spec coded.Spec) *coded.Code {
	code, err := coded.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func coverOf(t interface{ Fatal(...any) }, code *coded.Code, chunks int, strategy Strategy) *cover {
	c, err := newCover(code, chunks, strategy, schedule.NewHabits(code.N()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
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
		c := coverOf(t, code, chunks, rapid.SampledFrom([]Strategy{Adaptive, InOrder, Speculative}).Draw(t, "strategy"))
		c.reset(nil)
		now := 0.0
		alive := make([]bool, n)
		for i := range alive {
			alive[i] = true
		}
		at := make([][]int, n)          // by slot: chunks at work
		done := make(map[[2]int]bool)   // slot, chunk
		finished := make([]int, chunks) // results used, by chunk
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now += float64(rapid.IntRange(0, 1).Draw(t, "time"))
			slot := rapid.IntRange(0, n-1).Draw(t, "slot")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0: // die
				alive[slot], at[slot] = false, nil
				c.lose(slot)
			case 1: // come back
				alive[slot] = true
			case 2, 3: // take
				chunk, _, ok := c.next(slot, true, now)
				if !ok || !alive[slot] {
					continue
				}
				if done[[2]int{slot, chunk}] || slices.Contains(at[slot], chunk) || c.ready(chunk) {
					t.Fatalf("slot %d is given chunk %d again, or when it is ready", slot, chunk)
				}
				c.start(slot, chunk, now)
				at[slot] = append(at[slot], chunk)
			default: // finish
				if len(at[slot]) > 0 {
					finishOne(t, c, slot, now, at, done, finished)
				}
			}
		}
		possible := sufficientWith(code, alive, done, chunks)
		if got := c.feasible(func(s int) bool { return alive[s] }); got != possible {
			t.Fatalf("feasible is %v, want %v", got, possible)
		}
		workOn(t, c, alive, at, done, finished, now)
		if c.done() != possible {
			t.Fatalf("the round is done: %v, although a sufficient set lives: %v", c.done(), possible)
		}
		for chunk := range chunks {
			if answers := c.answers(chunk); c.ready(chunk) && (!sufficient(code, answers) || len(answers) != finished[chunk]) {
				t.Fatalf("chunk %d is ready with %v, of which %d were useful", chunk, answers, finished[chunk])
			}
		}
	})
}

// workOn lets the living slots work until none of them has anything to do.
func workOn(t *rapid.T, c *cover, alive []bool, at [][]int, done map[[2]int]bool, finished []int, now float64) {
	for progress := true; progress; {
		progress = false
		for slot := range alive {
			if !alive[slot] {
				continue
			}
			chunk, after, ok := c.next(slot, true, now)
			if ok {
				c.start(slot, chunk, now)
				at[slot] = append(at[slot], chunk)
			}
			if after > 0 { // it has only to be patient
				progress = true
				now += after
			}
			if len(at[slot]) > 0 {
				progress = true
				finishOne(t, c, slot, now, at, done, finished)
			}
		}
	}
}

func finishOne(t *rapid.T, c *cover, slot int, now float64, at [][]int, done map[[2]int]bool, finished []int) {
	chunk := at[slot][0]
	at[slot] = at[slot][1:]
	was := c.ready(chunk)
	useful, ready := c.finish(slot, chunk, now)
	if useful == was || ready && !useful || ready != (c.ready(chunk) && !was) {
		t.Fatalf("slot %d finished chunk %d, ready before: %v, after: %v, useful: %v, became ready: %v", slot, chunk, was, c.ready(chunk), useful, ready)
	}
	if useful {
		done[[2]int{slot, chunk}] = true
		finished[chunk]++
	}
	if again, _ := c.finish(slot, chunk, now); again {
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
	c, now := coverOf(t, code, 2, Adaptive), 0.0
	c.reset([][]int{{0, 1, 2, 3}, {2, 3, 4, 5}})
	if !c.feasible(func(s int) bool { return true }) || c.feasible(func(s int) bool { return s != 5 }) {
		t.Error("feasible must ask for every slot of the sets")
	}
	for slot := range 6 {
		for {
			chunk, _, ok := c.next(slot, true, now)
			if !ok {
				break
			}
			if !slices.Contains(c.chosen.Set(chunk), slot) {
				t.Fatalf("slot %d is given chunk %d of %v", slot, chunk, c.chosen.Set(chunk))
			}
			c.start(slot, chunk, now)
			c.finish(slot, chunk, now)
		}
	}
	if !c.done() || !slices.Equal(c.answers(0), []int{0, 1, 2, 3}) || !slices.Equal(c.answers(1), []int{2, 3, 4, 5}) {
		t.Errorf("done: %v, answers %v and %v", c.done(), c.answers(0), c.answers(1))
	}
	c.reset([][]int{{0, 1, 2, 3}, {0, 1, 2, 3}})
	for _, slot := range []int{1, 2, 3} {
		c.start(slot, 0, now)
		c.finish(slot, 0, now)
	}
	if ready := c.chosen.Choose([][]int{{1, 2, 3}, {1, 2, 3, 4}}); !slices.Equal(ready, []int{0}) {
		t.Errorf("after another selection %v are ready, want chunk 0", ready)
	}
}

// Sets must decode every chunk, by themselves or together; who is listed twice
// counts once.
func TestSetsThatLack(t *testing.T) {
	several := coded.Spec{Name: "universally-decodable", N: 4, K: 4, Load: 2}
	for _, c := range []struct {
		code     coded.Spec
		strategy Strategy
		sets     [][]int
		want     int
	}{
		{trig64, Adaptive, [][]int{{0, 1, 2, 3}, {2, 3, 4, 5}}, -1},
		{trig64, Adaptive, [][]int{{0, 1, 2, 3}, {2, 3, 4, 4}}, 1},
		{coded.Spec{Name: "uncoded", N: 4, K: 4}, InOrder, [][]int{{0, 1, 3}, {0, 1, 2, 3}}, 0},
		{coded.Spec{Name: "uncoded", N: 4, K: 4}, Ignoring, [][]int{{0, 1, 3}, {0, 1, 2, 3}}, -1},
		{several, Joint, [][]int{{0, 1, 3}, {3}}, -1},
		{several, Joint, [][]int{{0, 1, 2, 3}, nil}, -1},
		{several, Joint, [][]int{{0, 1}, {1}}, 0},
	} {
		if got := coverOf(t, codeOf(t, c.code), 2, c.strategy).lacking(c.sets); got != c.want {
			t.Errorf("%v: chunk %d lacks of %v, want %d", c.code, got, c.sets, c.want)
		}
	}
}

func BenchmarkRoundNext(b *testing.B) {
	code := codeOf(b, coded.Spec{Name: "trigonometric", N: 8, K: 6})
	c := coverOf(b, code, 24, Adaptive)
	b.ReportAllocs()
	for b.Loop() {
		c.reset(nil)
		now := 0.0
		for !c.done() {
			for slot := range 8 {
				if chunk, _, ok := c.next(slot, true, now); ok {
					c.start(slot, chunk, now)
					c.finish(slot, chunk, now)
				}
			}
		}
	}
}
