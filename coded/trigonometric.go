package coded

import "math"

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
var trigonometric = family{
	name:  "trigonometric",
	doc:   "real MDS code on the unit circle: any k of n decode, best conditioned while n-k is small; the default",
	paper: "K. Lee et al., Speeding up distributed machine learning using codes, IEEE Trans. IT 2018; harmonic frames: V. K. Goyal, J. Kovacevic, J. A. Kelner, ACHA 2001",
	define: func(n, k int) (Definition, error) {
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
		d := fromGenerator(g)
		d.Threshold, d.MDS = k, true
		d.Modular = func() []ModularTask { return linearTasks(trigonometricRows(modularCircle{}, n, k), 1) }
		return d, nil
	},
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

// modularCircle has the points of GF(Prime)^2 on the unit circle: the powers of
// z = ((1-t^2) + 2 t i) / (1+t^2), here with t = w+2. Prime is 3 modulo 4, so -1
// has no root and 1+t^2 is never 0. Points of different w have different z^2,
// for t and t' give the same or opposite points only if t' = t or t' = -1/t.
type modularCircle struct{}

func (modularCircle) point(w, m int) (cos, sin uint32) {
	t := uint32(w + 2)
	t2 := mulMod(t, t)
	inv := invMod(addMod(1, t2))
	x, y := mulMod(subMod(1, t2), inv), mulMod(addMod(t, t), inv)
	cos, sin = 1, 0
	for ; m > 0; m >>= 1 {
		if m&1 == 1 {
			cos, sin = turn(cos, sin, x, y)
		}
		x, y = turn(x, y, x, y)
	}
	return cos, sin
}

// turn is the product of two points of the circle, the sum of their angles.
func turn(x, y, u, v uint32) (cos, sin uint32) {
	return subMod(mulMod(x, u), mulMod(y, v)), addMod(mulMod(x, v), mulMod(y, u))
}
