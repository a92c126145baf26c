package coded

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// trigonometric is the MDS code whose columns are the first k functions of a
// trigonometric system at n equally spaced angles theta_w = 2 pi w / n:
//
//	k odd    1/sqrt(2), cos(j theta), sin(j theta)     j = 1 .. (k-1)/2
//	k even   cos((j+1/2) theta), sin((j+1/2) theta)    j = 0 .. k/2-1
//
// all times sqrt(2/n). Row w is, up to a change of basis, exp(i theta_w/2 m)
// for m = -(k-1), -(k-3), .., k-1: a Vandermonde row in exp(i theta_w), so any k
// rows are independent. The columns are orthonormal (a tight frame): the sum
// over all tasks of the squared norms is that of the blocks.
var trigonometric = Family{
	Name:  "trigonometric",
	Doc:   "real MDS code on the unit circle: any k of n decode, best conditioned while n-k is small; the default",
	Paper: "K. Lee et al., Speeding up distributed machine learning using codes, IEEE Trans. IT 2018; harmonic frames: V. K. Goyal, J. Kovacevic, J. A. Kelner, ACHA 2001",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		d := fromGenerator(trigonometricFrame(s.N, s.K))
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			c, err := newModularCircle(p, s.N)
			if err != nil {
				return nil, err
			}
			return linearTasks(trigonometricRows(c, s.N, s.K), 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "trigonometric", N: 6, K: 4}, {Name: "trigonometric", N: 7, K: 5}, {Name: "trigonometric", N: 12, K: 9},
		{Name: "trigonometric", N: 18, K: 15}, {Name: "trigonometric", N: 31, K: 28},
	},
}

// trigonometricFrame is the generator, n x k.
func trigonometricFrame(n, k int) [][]float64 {
	g := trigonometricRows(realCircle{n}, n, k)
	scale := math.Sqrt(2 / float64(n))
	for _, row := range g {
		for j := range row {
			row[j] *= scale
		}
		if k%2 == 1 {
			row[0] /= math.Sqrt2
		}
	}
	return g
}

// circle gives points of the unit circle x^2 + y^2 = 1 over some field.
type circle[E any] interface {
	// point returns the cosine and sine of m times the half angle of task w.
	// The full angles of different tasks differ.
	point(w, m int) (cos, sin E)
}

// trigonometricRows is the generator before its columns are scaled.
func trigonometricRows[E any](c circle[E], n, k int) [][]E {
	g := make([][]E, n)
	for w := range g {
		for m := (k + 1) % 2; m < k; m += 2 {
			cos, sin := c.point(w, m)
			if g[w] = append(g[w], cos); m > 0 {
				g[w] = append(g[w], sin)
			}
		}
	}
	return g
}

// realCircle has n equally spaced points.
type realCircle struct{ n int }

func (c realCircle) point(w, m int) (cos, sin float64) {
	// The angle pi w m / n is reduced in integers, so that no digit is lost.
	sin, cos = math.Sincos(math.Pi * float64(w*m%(2*c.n)) / float64(c.n))
	return cos, sin
}

// modularCircle has the points of GF(p)^2 on the unit circle: the powers of
// z = ((1-t^2) + 2 t i) / (1+t^2), here with t = w+2. If p is 3 modulo 4, -1 has
// no root, so that 1+t^2 is never 0. Points of different w have different z^2,
// for t and t' give the same or opposite points only if t' = t or t' = -1/t.
type modularCircle struct{ p field.Prime }

func newModularCircle(p field.Prime, n int) (modularCircle, error) {
	if p%4 != 3 {
		return modularCircle{}, fmt.Errorf("modulo %d, 1 modulo 4, the unit circle has points at infinity", p)
	}
	if uint64(n) > uint64(p)/4 {
		return modularCircle{}, fmt.Errorf("modulo %d there are no %d points on the unit circle", p, n)
	}
	return modularCircle{p}, nil
}

func (c modularCircle) point(w, m int) (cos, sin uint64) {
	p := c.p
	t := p.Int(int64(w + 2))
	t2 := p.Mul(t, t)
	inv := p.Inv(p.Add(1, t2))
	x, y := p.Mul(p.Sub(1, t2), inv), p.Mul(p.Add(t, t), inv)
	cos, sin = 1, 0
	for ; m > 0; m >>= 1 {
		if m&1 == 1 {
			cos, sin = c.turn(cos, sin, x, y)
		}
		x, y = c.turn(x, y, x, y)
	}
	return cos, sin
}

// turn is the product of two points of the circle, the sum of their angles.
func (c modularCircle) turn(x, y, u, v uint64) (cos, sin uint64) {
	p := c.p
	return p.Sub(p.Mul(x, u), p.Mul(y, v)), p.Add(p.Mul(x, v), p.Mul(y, u))
}
