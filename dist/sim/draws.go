package sim

// uniform returns the number in (0,1) that a seed has for a worker and a round,
// whatever else is drawn.
func uniform(seed uint64, round, worker int) float64 {
	h := mix(mix(mix(seed)+uint64(round)) + uint64(worker))
	return (float64(h>>12) + 0.5) * 0x1p-52
}

// stream derives the seed of the i-th of several independent draws.
func stream(seed, i uint64) uint64 { return mix(seed + (i+1)*0x9e3779b97f4a7c15) }

// mix is the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// chain tells whether a two-state Markov chain of a worker's own is in its second
// state in a round: it enters it with one probability a round and leaves it with
// another.
//
// The chain is coupled to one even number u a round, so that most rounds decide
// the state whatever it was before: u < min(enter, 1-leave) leads to the second
// state, u >= max(enter, 1-leave) to the first, from either. Looking back for
// the last such round gives the state of the stationary chain without a history,
// in the same way for every round (coupling from the past: Propp, Wilson 1996).
func chain(seed uint64, round, worker int, enter, leave float64) bool {
	low, high := min(enter, 1-leave), max(enter, 1-leave)
	flipped := false
	for r := round; r > round-maxLookBack; r-- {
		switch u := uniform(seed, r, worker); {
		case u < low:
			return !flipped
		case u >= high:
			return flipped
		case enter > 1-leave: // the round swaps the states; else it keeps them
			flipped = !flipped
		}
	}
	return flipped
}

// maxLookBack bounds the search of chain. A chain that parsing accepts is
// undecided for so long with a probability below 1e-40.
const maxLookBack = 1 << 20
