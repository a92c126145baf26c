package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Distribution is that of a factor by which work takes longer, or of a time. It
// is given by its quantiles: F^-1(u) of an even u has the distribution F, and so
// a single number decides a draw.
type Distribution interface {
	// Quantile returns the value that a draw does not exceed with probability u,
	// 0 < u < 1. It does not fall as u grows.
	Quantile(u float64) float64
	// String writes it as ParseDistribution reads it.
	String() string
}

// Draw draws from a distribution.
func Draw(d Distribution, rng *rand.Rand) float64 {
	return d.Quantile(max(rng.Float64(), 0x1p-54)) // 0 is no quantile
}

// Constant is the factor X, always: "x=4".
type Constant struct{ X float64 }

// Quantile implements Distribution.
func (d Constant) Quantile(float64) float64 { return d.X }

func (d Constant) String() string { return join("x", d.X) }

// ShiftedExp is A plus an exponential of a mean: "shifted-exp=1,0.5", and
// "exp=0.5" if A is 0. As the
// factor of a load l it makes the time l(a + Exp) of S. Lee et al. (IEEE Trans.
// IT 2018) and of most papers since.
type ShiftedExp struct{ A, Mean float64 }

// Quantile implements Distribution.
func (d ShiftedExp) Quantile(u float64) float64 { return d.A - d.Mean*math.Log1p(-u) }

func (d ShiftedExp) String() string {
	if d.A == 0 {
		return join("exp", d.Mean)
	}
	return join("shifted-exp", d.A, d.Mean)
}

// Pareto is at least Least, and exceeds x with probability (Least/x)^Alpha:
// "pareto=1,2". The mean is infinite for Alpha <= 1, the variance for Alpha <= 2.
type Pareto struct{ Least, Alpha float64 }

// Quantile implements Distribution.
func (d Pareto) Quantile(u float64) float64 { return d.Least * math.Pow(1-u, -1/d.Alpha) }

func (d Pareto) String() string { return join("pareto", d.Least, d.Alpha) }

// Weibull is Least plus a Weibull variable, Scale (-ln(1-u))^(1/Shape):
// "weibull=1,0.5,0.7". Shape 1 is the shifted exponential, a smaller one has a
// heavier tail.
type Weibull struct{ Least, Scale, Shape float64 }

// Quantile implements Distribution.
func (d Weibull) Quantile(u float64) float64 {
	return d.Least + d.Scale*math.Pow(-math.Log1p(-u), 1/d.Shape)
}

func (d Weibull) String() string { return join("weibull", d.Least, d.Scale, d.Shape) }

// LogNormal has the median P50 and its 99th percentile Tail times as high, as
// measured latencies are mostly reported: "lognormal=1,3".
type LogNormal struct{ P50, Tail float64 }

// z99 is the 99th percentile of the normal distribution.
const z99 = 2.3263478740408408

// Quantile implements Distribution.
func (d LogNormal) Quantile(u float64) float64 {
	return d.P50 * math.Exp(math.Log(d.Tail)/z99*math.Sqrt2*math.Erfinv(2*u-1))
}

func (d LogNormal) String() string { return join("lognormal", d.P50, d.Tail) }

// join writes kind=a,b,...
func join(kind string, values ...float64) string {
	s := make([]string, len(values))
	for i, v := range values {
		s[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return kind + "=" + strings.Join(s, ",")
}

// distributionKinds has the number of parameters of each kind of distribution.
var distributionKinds = map[string]int{"x": 1, "exp": 1, "shifted-exp": 2, "pareto": 2, "weibull": 3, "lognormal": 2}

// DistributionForms lists what ParseDistribution reads, for help texts.
const DistributionForms = "x=F, exp=MEAN, shifted-exp=A,MEAN, pareto=LEAST,ALPHA, weibull=LEAST,SCALE,SHAPE or lognormal=P50,P99/P50"

// ParseDistribution reads x=4, exp=0.5, shifted-exp=1,0.5 (1 plus an exponential of mean
// 0.5), pareto=1,2 (least value 1, exponent 2), weibull=1,0.5,0.7 or
// lognormal=1,3 (median 1, 99th percentile 3 times that).
func ParseDistribution(s string) (Distribution, error) {
	kind, values, _ := strings.Cut(s, "=")
	count, known := distributionKinds[kind]
	if !known {
		return nil, fmt.Errorf("unknown slowdown %q; want %s", s, DistributionForms)
	}
	v, err := numbers(values, count)
	if err != nil {
		return nil, fmt.Errorf("slowdown %q: %w", s, err)
	}
	switch kind {
	case "exp":
		return ShiftedExp{0, v[0]}, nil
	case "shifted-exp":
		return ShiftedExp{v[0], v[1]}, nil
	case "pareto":
		return Pareto{v[0], v[1]}, nil
	case "weibull":
		return Weibull{v[0], v[1], v[2]}, nil
	case "lognormal":
		if v[1] < 1 {
			return nil, fmt.Errorf("slowdown %q: the 99th percentile is %v times the median, want at least 1", s, v[1])
		}
		return LogNormal{v[0], v[1]}, nil
	}
	return Constant{v[0]}, nil
}

// maxParameter bounds the parameters of a specification.
const maxParameter = 1e6

// numbers reads positive numbers, separated by commas.
func numbers(s string, count int) ([]float64, error) {
	parts := strings.Split(s, ",")
	if len(parts) != count {
		return nil, fmt.Errorf("%d numbers wanted", count)
	}
	v := make([]float64, count)
	for i, p := range parts {
		x, err := strconv.ParseFloat(p, 64)
		if err != nil || !(x > 0) || x > maxParameter {
			return nil, fmt.Errorf("%q is not a positive number up to 1e6", p)
		}
		v[i] = x
	}
	return v, nil
}
