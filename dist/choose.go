package dist

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// RandomSurvivors is a Selection for tests: every product is decoded from a
// random sufficient set of the fresh slots, which depends on nothing but the
// seed, the layer's name, the product, the step and which slots are fresh.
func RandomSurvivors(seed uint64) Selection {
	return func(r RoundInfo) [][]int {
		h := fnv.New64a()
		h.Write([]byte(r.Layer.Name))
		rng := rand.New(rand.NewPCG(seed, h.Sum64()^uint64(r.Step)<<8^uint64(r.Product)))
		order := slices.Clone(r.Fresh)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		t := coded.NewTracker(r.Code)
		var set []int
		for _, slot := range order {
			if t.Ready() {
				break
			}
			if t.Add(slot) {
				set = append(set, slot)
			}
		}
		if !t.Ready() {
			return nil
		}
		slices.Sort(set)
		return [][]int{set}
	}
}
