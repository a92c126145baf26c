package sim

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

var distributions = []struct {
	d                     Distribution
	least, mean, p50, p99 float64
}{
	{Constant{4}, 4, 4, 4, 4},
	{ShiftedExp{0, 2}, 0, 2, 2 * math.Ln2, 2 * math.Log(100)},
	{ShiftedExp{1, 0.5}, 1, 1.5, 1 + 0.5*math.Ln2, 1 + 0.5*math.Log(100)},
	{Pareto{1, 3}, 1, 1.5, math.Cbrt(2), math.Cbrt(100)},
	{Weibull{1, 2, 1}, 1, 3, 1 + 2*math.Ln2, 1 + 2*math.Log(100)},
	{Weibull{1, 1, 0.5}, 1, 3, 1 + math.Ln2*math.Ln2, 1 + math.Log(100)*math.Log(100)},
	// The mean of a log-normal is the median times exp(sigma^2/2).
	{LogNormal{2, 3}, 0, 2 * math.Exp(math.Pow(math.Log(3)/z99, 2)/2), 2, 6},
}

// The mean is the integral of the quantiles.
func TestDistributions(t *testing.T) {
	const n = 200000
	for _, c := range distributions {
		var mean float64
		last := 0.0
		for i := range n {
			q := c.d.Quantile((float64(i) + 0.5) / n)
			if q < last || q < c.least {
				t.Fatalf("%v: quantile %d is %v after %v, the least value is %v", c.d, i, q, last, c.least)
			}
			last = q
			mean += q / n
		}
		if math.Abs(mean-c.mean) > 0.005*c.mean {
			t.Errorf("%v: mean %.4f, want %.4f", c.d, mean, c.mean)
		}
		for u, want := range map[float64]float64{0.5: c.p50, 0.99: c.p99} {
			if got := c.d.Quantile(u); math.Abs(got-want) > 1e-9*want {
				t.Errorf("%v: quantile %v is %v, want %v", c.d, u, got, want)
			}
		}
	}
}

// Draws of workers and rounds are even, whatever index runs, and those of
// different seeds have nothing to do with each other.
func TestUniform(t *testing.T) {
	const n = 20000
	for name, draw := range map[string]func(i int) float64{
		"rounds":  func(i int) float64 { return uniform(1, i, 3) },
		"workers": func(i int) float64 { return uniform(1, 3, i) },
		"seeds":   func(i int) float64 { return uniform(uint64(i), 1, 1) },
		"streams": func(i int) float64 { return uniform(stream(7, uint64(i)), 1, 1) },
	} {
		var mean, square, serial float64
		last := 0.5
		for i := range n {
			u := draw(i)
			if !(u > 0 && u < 1) {
				t.Fatalf("%s: draw %d is %v", name, i, u)
			}
			mean += u / n
			square += u * u / n
			serial += (u - 0.5) * (last - 0.5) * 12 / n
			last = u
		}
		// Five standard deviations of each.
		if math.Abs(mean-0.5) > 5*0.2887/math.Sqrt(n) || math.Abs(square-1./3) > 5*0.2981/math.Sqrt(n) || math.Abs(serial) > 5/math.Sqrt(n) {
			t.Errorf("%s: mean %v, mean square %v, serial correlation %v", name, mean, square, serial)
		}
	}
}

func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var mean float64
	for range 40000 {
		mean += Draw(ShiftedExp{1, 1}, rng) / 40000
	}
	if math.Abs(mean-2) > 5./200 {
		t.Errorf("mean %v of 40000 draws, want 2", mean)
	}
}

func TestParseDistribution(t *testing.T) {
	for _, c := range distributions {
		got, err := ParseDistribution(c.d.String())
		if err != nil || got != c.d {
			t.Errorf("%v is read as %v, %v", c.d, got, err)
		}
	}
	for s, want := range map[string]string{
		"":                "unknown slowdown",
		"speed=1":         "unknown slowdown",
		"x":               "not a positive number",
		"x=0":             "not a positive number",
		"x=NaN":           "not a positive number",
		"x=2e6":           "not a positive number",
		"pareto=1":        "2 numbers wanted",
		"weibull=1,2,3,4": "3 numbers wanted",
		"lognormal=1,0.5": "want at least 1",
	} {
		if _, err := ParseDistribution(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", s, err, want)
		}
	}
}
