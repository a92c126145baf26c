package datasets

import (
	"math/bits"
	"math/rand/v2"
)

// shuffleStream keeps the shuffling apart from what else is drawn from the
// same seed.
const shuffleStream = 0x73687566666c65

// shuffle fills order with the permutation of 0..len-1 that belongs to a seed
// and an epoch. It is part of what a resumed run must repeat, so it is written
// out here instead of taken from a library that may change its way of drawing:
// Fisher-Yates, with Lemire's unbiased reduction of PCG's 64 bits.
func shuffle(order []int, seed uint64, epoch int) {
	for i := range order {
		order[i] = i
	}
	pcg := rand.NewPCG(seed, shuffleStream+uint64(epoch)*0x9e3779b97f4a7c15)
	for i := len(order) - 1; i > 0; i-- {
		j := below(pcg, uint64(i)+1)
		order[i], order[j] = order[j], order[i]
	}
}

// below draws uniformly from 0..n-1 (Lemire, "Fast Random Integer Generation
// in an Interval", 2019, algorithm 5).
func below(pcg *rand.PCG, n uint64) uint64 {
	hi, lo := bits.Mul64(pcg.Uint64(), n)
	if lo < n {
		for reject := -n % n; lo < reject; {
			hi, lo = bits.Mul64(pcg.Uint64(), n)
		}
	}
	return hi
}
