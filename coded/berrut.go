package coded

import "math"

// berrut is for any function f of the blocks, also one that is not linear: the
// blocks are values at points a_i of Berrut's rational interpolant, task j gets
// its value at z_j,
//
//	u(z) = sum_i A_i w_i(z),   w_i(z) = (-1)^i/(z-a_i) / sum_l (-1)^l/(z-a_l)
//	a_i = cos((2i+1) pi/2K),   z_j = cos(j pi/(n-1))
//
// and f(u(z)), a smooth function, is interpolated in the same way through
// whichever results there are, signs alternating along them, and evaluated at
// a_i. There is no threshold: every set gives an estimate, whose error falls with
// the number of results (like 1/n for smooth f) and grows with the largest gap
// between them. Weights are at most a few units: no rounding is amplified.
var berrut = Family{
	Name:  "berrut",
	Doc:   "approximate, for any smooth function of the blocks, from any results: rational interpolation",
	Paper: "T. Jahani-Nezhad, M. A. Maddah-Ali, Berrut approximated coded computing: straggler resistance beyond polynomial computing, IEEE Trans. PAMI 2023",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		nodes, points := chebyshevPoints(s.K), extremalPoints(s.N)
		g := make([][]float64, s.N)
		for j, z := range points {
			g[j] = berrutRow(nodes, z)
		}
		d := fromGenerator(g)
		d.Approximate = true
		d.Weights = func(have []int) [][]float64 {
			at := make([]float64, len(have))
			for i, j := range have {
				at[i] = points[j]
			}
			weights := make([][]float64, s.K)
			for i, a := range nodes {
				weights[i] = berrutRow(at, a)
			}
			return weights
		}
		return d, nil
	},
	Examples: []Spec{{Name: "berrut", N: 8, K: 3}, {Name: "berrut", N: 16, K: 4}, {Name: "berrut", N: 64, K: 8}},
}

// extremalPoints are the n extrema of the Chebyshev polynomial T_(n-1), ends
// included, in descending order.
func extremalPoints(n int) []float64 {
	z := make([]float64, n)
	for j := range z {
		z[j] = 1
		if n > 1 {
			z[j] = math.Cos(float64(j) * math.Pi / float64(n-1))
		}
	}
	return z
}

// berrutRow gives the weights of the values at the nodes, in descending order, of
// the interpolant at z.
func berrutRow(nodes []float64, z float64) []float64 {
	row := make([]float64, len(nodes))
	var sum float64
	sign := 1.0
	for i, a := range nodes {
		if math.Abs(z-a) < 1e-14 {
			return unit(len(nodes), i)
		}
		row[i] = sign / (z - a)
		sum += row[i]
		sign = -sign
	}
	for i := range row {
		row[i] /= sum
	}
	return row
}
