package sim

import (
	"fmt"
	"math"
	"testing"
)

func model(t testing.TB, spec string, n int) Model {
	t.Helper()
	m, err := ParseModel(spec, n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func simulate(t testing.TB, c Config) *Summary {
	t.Helper()
	s, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The mean round time over the ideal for n=8, k=6 without latency. Where a value
// is known in closed form it is that one: the j-th of 8 exponentials has the mean
// H_8 - H_(8-j), the largest of 8 Pareto(1,2) Gamma(9) Gamma(1/2) / Gamma(8.5); who
// backs up a worker that is 5 times as slow begins at 1.05 shares and takes one more.
func TestRatios(t *testing.T) {
	strategies := []Strategy{Uncoded{}, Replicated{2}, Speculative{}, MDS{6}, Adaptive{6, 24}, Adaptive{6, 48}}
	// The mean of Pareto(1,2) converges slowly (its variance is infinite): what is
	// cheap gets many rounds.
	rounds := []int{200000, 20000, 2000, 20000, 1500, 800}
	for _, row := range []struct {
		spec string
		want []float64
	}{
		{"none", []float64{1.00, 2.00, 1.00, 1.33, 1.00, 1.00}},
		{"shifted-exp=1,1", []float64{2.04, 2.25, 1.55, 1.63, 1.09, 1.07}},
		{"slow:1@x=5", []float64{4.50, 1.80, 1.845, 1.20, 1.05, 1.05}},
		{"some:2@x=2", []float64{1.75, 2.02, 1.75, 1.17, 1.07, 1.07}},
		{"pareto=1,2", []float64{3.15, 2.18, 1.53, 1.56, 1.10, 1.08}},
	} {
		m := model(t, row.spec, 8)
		for i, s := range strategies {
			n := rounds[i]
			switch {
			case row.spec == "none" || row.spec == "slow:1@x=5":
				n = 1 // every round is the same
			case row.spec != "pareto=1,2":
				n = min(n, 20000)
			}
			got := simulate(t, Config{Job: KOfN(8, 6), Strategy: s, Model: m, Seed: 1, Rounds: n})
			if math.Abs(got.Ratio-row.want[i]) > 0.03*row.want[i] {
				t.Errorf("%s, %s: %.3f times the ideal, want %.2f within 3%%", row.spec, s.Name(), got.Ratio, row.want[i])
			}
		}
	}
}

// The mean round time for n=20 in units of the uncoded share of a worker that
// nothing slows down; the partial-work code has k=16.
func TestTwentyWorkers(t *testing.T) {
	for _, row := range []struct {
		spec string
		k    int // the best one for MDS
		want [5]float64
	}{
		{"shifted-exp=1,1", 14, [5]float64{4.61, 4.92, 3.07, 1.88, 1.74}},
		{"shifted-exp=1,0.1", 19, [5]float64{1.36, 2.29, 1.33, 1.09, 1.13}},
		{"pareto=1,2", 14, [5]float64{8.07, 4.39, 2.58, 1.65, 1.56}},
	} {
		job := Job{Workers: 20, Work: 20, Held: 1.25}
		m := model(t, row.spec, 20)
		mds := math.Inf(1)
		bestK := 0
		for k := 12; k <= 20; k++ {
			if s := simulate(t, Config{Job: job, Strategy: MDS{k}, Model: m, Seed: 2, Rounds: 2000}); s.Mean < mds {
				mds, bestK = s.Mean, k
			}
		}
		if max(bestK-row.k, row.k-bestK) > 1 {
			t.Errorf("%s: the best k is %d, want %d or next to it", row.spec, bestK, row.k)
		}
		got := [5]float64{2: mds}
		for i, s := range []Strategy{Uncoded{}, Replicated{2}, nil, Partial{16, 200}, Rateless{0.03, 2, 2000}} {
			rounds := []int{40000, 20000, 0, 60, 60}[i]
			if s != nil {
				got[i] = simulate(t, Config{Job: job, Strategy: s, Model: m, Seed: 2, Rounds: rounds}).Mean
			}
		}
		for i, want := range row.want {
			if math.Abs(got[i]-want) > 0.05*want {
				t.Errorf("%s: %v, want %v within 5%%", row.spec, fmt.Sprintf("%.3f", got), row.want)
				break
			}
		}
	}
}
