package coded

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// bivariate is a code for unfinished work: A in m row blocks, B in q column blocks,
// and with load s each task has s coded blocks on either side,
//
//	A(x) = sum_i A_i T_i(x) at x_w1 .. x_ws,  B(y) = sum_j B_j T_j(y) at y_w1 .. y_ws
//
// of which it multiplies first all A(x) with B(y_w1), then all with B(y_w2), and so
// on: s^2 products of 2 s coded blocks, where tasks of a univariate code would hold
// 2 s^2. Each is a value of the polynomial A(x) B(y) with the m q coefficients
// A_i B_j. If s divides m, any m q results decode, whatever tasks they are from,
// provided that those of each task are the first ones in its order; then any m q /
// s^2 tasks, rounded up, decode, and no fewer do.
//
// The scheme is that of B. Hasircioglu, J. Gomez-Vilardebo, D. Gunduz (IEEE JSAC
// 2021), who take derivatives at one point where we take s points. That m q results
// suffice is proved here for s = m: set the x of all tasks to the same m points, in
// an order for each task such that partial columns fill a circle, and every point
// has q values of a polynomial of degree below q in y. For other s it was checked
// in exact arithmetic at random points: 23,000 random patterns of unfinished work
// for all m <= 8, q <= 6, and s dividing m (also with fewer coded blocks of B)
// without a failure, and the same for the examples whenever the tests run. It does
// fail at some patterns if s does not divide m, or if each A(x) is multiplied with
// all of B first and s does not divide q.
//
// A task computes s^2/(m q) of the products if it finishes, gets and stores s/m of
// A and s/q of B, and sends s^2/(m q) of C back.
//
// The polynomials are Chebyshev polynomials, the points near Chebyshev points, drawn
// by the seed, the best of 48 draws as in random-khatri-rao. Numerics: worst
// condition number and median, of 100 sets of threshold tasks, with load 2 and
// seed 1:
//
//	n, m, q    8,4,4     12,6,4      18,6,5       18,8,6        24,12,6
//	           1100/84   3e6/500     2.2e4/440    4.5e5/2.1e3   8e6/3.0e3
//
// The worst sets are rare, and much worse than the median.
var bivariate = Family{
	Name:  "bivariate",
	Doc:   "load coded blocks on either side and the products of all of them in order: any mq results decode, unfinished work counts",
	Paper: "B. Hasircioglu, J. Gomez-Vilardebo, D. Gunduz, Bivariate polynomial coding for efficient distributed matrix multiplication, IEEE JSAC 2021",
	Kind:  Bilinear,
	Uses:  UsesM | UsesQ | UsesLoad | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		products := boundedProduct(s.Load, s.Load)
		switch {
		case s.M%s.Load != 0:
			return Definition{}, errors.New("m must be a multiple of load")
		case s.Load > s.Q:
			return Definition{}, errors.New("load must be at most q")
		}
		all := boundedProduct(s.M, s.Q)
		k := (all-1)/products + 1
		if err := s.checkMatrix(s.M, s.Load, s.Q, "m*q/load^2, rounded up,", k); err != nil {
			return Definition{}, err
		}
		tasks, err := searchDraw(s.N, k, all, s.Seed, func(rng *rand.Rand) []Task {
			return bivariateTasks(field.Real{}, s, scatteredPoints(s, rng), scatteredPoints(s, rng))
		})
		if err != nil {
			return Definition{}, err
		}
		d := Definition{ABlocks: s.M, BBlocks: s.Q, Tasks: tasks, Threshold: k, MDS: true, Prefix: all}
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			rng := rand.New(rand.NewPCG(s.Seed, uint64(p)))
			count := s.N * s.Load
			return bivariateTasks(p, s, randomElements(rng, p, count), randomElements(rng, p, count)), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "bivariate", N: 5, M: 4, Q: 2, Load: 2, Seed: 1}, {Name: "bivariate", N: 8, M: 4, Q: 4, Load: 2, Seed: 1},
		{Name: "bivariate", N: 6, M: 3, Q: 4, Load: 3, Seed: 1}, {Name: "bivariate", N: 18, M: 6, Q: 4, Load: 2, Seed: 1},
	},
}

// scatteredPoints gives the points of all tasks on a side: near Chebyshev points, in
// random order. Were they symmetric, the points of a few tasks might be opposites,
// and their rows dependent.
func scatteredPoints(s Spec, rng *rand.Rand) []float64 {
	points := make([]float64, s.N*s.Load)
	for i := range points {
		shift := 0.25 + rng.Float64()/2
		points[i] = math.Cos(math.Pi * (float64(i) + shift) / float64(len(points)))
	}
	rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	return points
}

// bivariateTasks gives the tasks at the points x and y, of which each has as many
// as the load says.
func bivariateTasks[E any](f field.Field[E], s Spec, x, y []E) []Coefficients[E] {
	order := make([]Output, 0, s.Load*s.Load)
	for l := range s.Load {
		for k := range s.Load {
			order = append(order, Output{{k, l}})
		}
	}
	tasks := make([]Coefficients[E], s.N)
	for w := range tasks {
		tasks[w].Results = order
		for k := range s.Load {
			tasks[w].A = append(tasks[w].A, chebyshevRow(f, x[w*s.Load+k], s.M))
			tasks[w].B = append(tasks[w].B, chebyshevRow(f, y[w*s.Load+k], s.Q))
		}
	}
	return tasks
}
