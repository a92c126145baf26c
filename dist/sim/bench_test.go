package sim

import "testing"

// A round of ten thousand workers; time per round.
func BenchmarkRound(b *testing.B) {
	const n, k = 10000, 8000
	for name, s := range map[string]Strategy{
		"uncoded": Uncoded{}, "mds": MDS{k}, "adaptive/chunks=24": Adaptive{k, 24}, "partial/chunks=24": Partial{k, 24},
	} {
		b.Run(name+"/n=10000/k=8000", func(b *testing.B) {
			b.ReportAllocs()
			if _, err := Run(b.Context(), Config{Job: KOfN(n, k), Strategy: s, Model: Slow{By: ShiftedExp{1, 1}}, Seed: 1, Rounds: b.N}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
