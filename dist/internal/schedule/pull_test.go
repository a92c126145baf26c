package schedule

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
	none := func(int) bool { return false }
	for name, c := range map[string]struct {
		ranks  []Rank
		offset int
		limit  Rank
		skip   func(int) bool
		want   int // -1: none
	}{
		"least cover":            {[]Rank{2, 1, 0, 1}, 0, Enough, none, 2},
		"own offset first":       {[]Rank{1, 1, 1, 1}, 2, Enough, none, 2},
		"round the end":          {[]Rank{1, 1, 2, 2}, 2, Enough, none, 0},
		"done is never given":    {[]Rank{Over, Over}, 1, Over, none, -1},
		"enough is not asked":    {[]Rank{RankOf(3, true), Over}, 0, Enough, none, -1},
		"enough as a last":       {[]Rank{RankOf(3, true), RankOf(2, true), Over}, 0, Over, none, 1},
		"too little goes before": {[]Rank{RankOf(3, true), RankOf(5, false)}, 0, Over, none, 1},
		"skipped":                {[]Rank{0, 1, 2}, 0, Enough, func(c int) bool { return c == 0 }, 1},
		"all skipped":            {[]Rank{0, 1, 2}, 1, Enough, func(int) bool { return true }, -1},
		"no chunk":               {nil, 0, Enough, none, -1},
	} {
		got, ok := Next(c.ranks, c.offset, c.limit, c.skip)
		if got != c.want || ok != (c.want >= 0) {
			t.Errorf("%s: chunk %d, %v; want %d", name, got, ok, c.want)
		}
	}
}

// Next agrees with the rule as it is said: no eligible chunk has a lower rank,
// and none of the same rank comes earlier in the worker's order.
func TestNextIsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.SampledFrom([]Rank{0, 1, 2, Enough, Enough + 1, Over}), 1, 8).Draw(t, "ranks")
		skipped := rapid.SliceOfN(rapid.Bool(), len(ranks), len(ranks)).Draw(t, "skipped")
		offset := rapid.IntRange(0, len(ranks)-1).Draw(t, "offset")
		limit := rapid.SampledFrom([]Rank{Enough, Over}).Draw(t, "limit")
		got, ok := Next(ranks, offset, limit, func(c int) bool { return skipped[c] })
		if ok && (skipped[got] || ranks[got] >= limit) {
			t.Fatalf("chunk %d is not eligible", got)
		}
		distance := func(c int) int { return (c - offset + len(ranks)) % len(ranks) }
		for c := range ranks {
			if skipped[c] || ranks[c] >= limit {
				continue
			}
			if !ok || ranks[c] < ranks[got] || ranks[c] == ranks[got] && distance(c) < distance(got) {
				t.Fatalf("chunk %d should come before %d", c, got)
			}
		}
	})
}

func TestOffset(t *testing.T) {
	for w, want := range []int{0, 3, 6, 9} {
		if got := Offset(w, 4, 12); got != want {
			t.Errorf("worker %d begins at %d, want %d", w, got, want)
		}
	}
	if got := Offset(9, 10, 3); got != 2 {
		t.Errorf("more workers than chunks: the last begins at %d, want 2", got)
	}
}
