package schedule

import "math"

// Rank says how much a chunk needs a worker: the least is served first.
type Rank int32

const (
	// Enough is the least rank of a chunk whose cover is enough to decode it.
	Enough Rank = 1 << 30
	// Over is the rank of a chunk that is done: nobody is given it.
	Over Rank = math.MaxInt32
)

// RankOf returns the rank of a chunk that is not done. Its cover is less than
// Over - Enough.
func RankOf(cover int, enough bool) Rank {
	if enough {
		return Enough + Rank(cover)
	}
	return Rank(cover)
}

// Next returns the chunk of least rank below a limit, the first one in cyclic
// order from offset, 0 <= offset < len(ranks), among those that skip does not
// rule out. skip is asked only about chunks that would be returned otherwise.
func Next(ranks []Rank, offset int, limit Rank, skip func(chunk int) bool) (chunk int, ok bool) {
	chunk = -1
	for c := offset; c < len(ranks); c++ {
		if ranks[c] < limit && !skip(c) {
			chunk, limit = c, ranks[c]
		}
	}
	for c := range offset {
		if ranks[c] < limit && !skip(c) {
			chunk, limit = c, ranks[c]
		}
	}
	return chunk, chunk >= 0
}

// Offset returns where worker w of n begins its search.
func Offset(w, n, chunks int) int { return w * chunks / n }
