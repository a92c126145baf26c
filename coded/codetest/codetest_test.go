package codetest

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/field"
)

func source() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// linear is the definition of a one-sided code.
func linear(threshold int, g ...[]float64) coded.Definition {
	d := coded.Definition{Name: "test", ABlocks: len(g[0]), BBlocks: 1, Threshold: threshold}
	for _, row := range g {
		d.Tasks = append(d.Tasks, coded.Task{A: [][]float64{row}, B: [][]float64{{1}}})
	}
	return d
}

func mustNew(t *testing.T, d coded.Definition) *coded.Code {
	t.Helper()
	c, err := coded.NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGoodCodes: codes of every form of the abstraction satisfy the laws.
func TestGoodCodes(t *testing.T) {
	mds := linear(2, []float64{1, 0}, []float64{0, 1}, []float64{1, 1}, []float64{1, -1})
	mds.MDS = true
	for name, d := range map[string]coded.Definition{
		"systematic":     mds,
		"polynomial":     polynomial(2, 2, 6),
		"matdot":         matDot(2, 5),
		"several blocks": twoProducts(),
	} {
		t.Run(name, func(t *testing.T) { Test(t, mustNew(t, d), source()) })
	}
}

// polynomial is the polynomial code of Q. Yu, M. Maddah-Ali, S. Avestimehr, NIPS
// 2017, at small integers: A~ = sum A_i x^i, B~ = sum B_j x^(m j), K = m n'.
func polynomial(m, n, tasks int) coded.Definition {
	d := coded.Definition{Name: "polynomial", ABlocks: m, BBlocks: n, Threshold: m * n, MDS: true}
	for w := range tasks {
		x := float64(w - tasks/2)
		var u, v []float64
		for i := range m {
			u = append(u, math.Pow(x, float64(i)))
		}
		for j := range n {
			v = append(v, math.Pow(x, float64(m*j)))
		}
		d.Tasks = append(d.Tasks, coded.Task{A: [][]float64{u}, B: [][]float64{v}})
	}
	return d
}

// matDot wants one sum of products and needs 2p-1 tasks (M. Fahim et al., 2017):
// the rows span a proper subspace of the products.
func matDot(p, tasks int) coded.Definition {
	d := coded.Definition{Name: "matdot", ABlocks: p, BBlocks: p, Threshold: 2*p - 1, Outputs: []coded.Output{nil}}
	for i := range p {
		d.Outputs[0] = append(d.Outputs[0], coded.Pair{A: i, B: i})
	}
	for w := range tasks {
		x := float64(w - tasks/2)
		var u, v []float64
		for i := range p {
			u = append(u, math.Pow(x, float64(i)))
			v = append(v, math.Pow(x, float64(p-1-i)))
		}
		d.Tasks = append(d.Tasks, coded.Task{A: [][]float64{u}, B: [][]float64{v}})
	}
	return d
}

// twoProducts has tasks of two results, one of them with listed pairs.
func twoProducts() coded.Definition {
	unit := func(i int) []float64 { v := make([]float64, 2); v[i] = 1; return v }
	both := [][]float64{unit(0), unit(1)}
	return coded.Definition{
		Name: "two products", ABlocks: 2, BBlocks: 2, Threshold: 2,
		Tasks: []coded.Task{
			{A: both, B: [][]float64{unit(0)}},
			{A: both, B: [][]float64{unit(1)}},
			{A: both, B: [][]float64{{1, 1}, {1, 2}}, Results: []coded.Output{{{A: 0, B: 0}}, {{A: 1, B: 1}}}},
		},
	}
}

// TestWrongCodes: the suite notices each kind of mistake, by the right law.
func TestWrongCodes(t *testing.T) {
	rows := [][]float64{{1, 0}, {0, 1}, {1, 1}, {1, -1}}
	thirdRepeats := [][]float64{{1, 0}, {0, 1}, {1, 0}, {1, -1}}
	with := func(d coded.Definition, change func(*coded.Definition)) coded.Definition {
		change(&d)
		return d
	}
	for name, test := range map[string]struct {
		d    coded.Definition
		laws []string
	}{
		"threshold too small":  {linear(1, rows...), []string{"threshold"}},
		"threshold too large":  {linear(3, rows...), []string{"threshold"}},
		"two equal rows":       {linear(2, thirdRepeats...), []string{"threshold", "decoding"}},
		"counts but is no MDS": {with(linear(3, thirdRepeats...), func(d *coded.Definition) { d.MDS = true }), []string{"threshold", "readiness"}},
		"a block that one task has": {with(linear(2, []float64{1, 0}, []float64{0, 1}, []float64{1, 0}, []float64{1, 0}),
			func(d *coded.Definition) { d.MDS = true }), []string{"threshold", "lies"}},
		"other modular code": {with(linear(2, rows...), func(d *coded.Definition) {
			d.Modular = func(field.Prime) ([]coded.ModularTask, error) {
				var tasks []coded.ModularTask
				for _, row := range [][]uint64{{1, 0}, {0, 1}, {1, 1}, {1, 1}} {
					tasks = append(tasks, coded.ModularTask{A: [][]uint64{row}, B: [][]uint64{{1}}})
				}
				return tasks, nil
			}
		}), []string{"threshold", "readiness"}},
		"another code modulo 65537": {with(linear(2, rows...), func(d *coded.Definition) {
			d.Modular = func(p field.Prime) ([]coded.ModularTask, error) {
				last := []uint64{1, p.Int(-1)}
				if p == field.Fermat {
					last[1] = 1
				}
				var tasks []coded.ModularTask
				for _, row := range [][]uint64{{1, 0}, {0, 1}, {1, 1}, last} {
					tasks = append(tasks, coded.ModularTask{A: [][]uint64{row}, B: [][]uint64{{1}}})
				}
				return tasks, nil
			}
		}), []string{"exact decoding"}},
		"not all of it":                     {with(linear(0, []float64{1, 0}, []float64{2, 0}), func(*coded.Definition) {}), []string{"threshold"}},
		"too few first results":             {with(twoProducts(), func(d *coded.Definition) { d.Prefix = 3 }), []string{"prefix"}},
		"first results that are not needed": {with(linear(2, rows...), func(d *coded.Definition) { d.Prefix = 3 }), []string{"prefix"}},
		"wrong weights of its own": {with(linear(2, rows...), func(d *coded.Definition) {
			d.Weights = func(have []int) [][]float64 {
				if len(have) != 2 {
					return nil
				}
				return [][]float64{{1, 0}, {0, 1}}
			}
		}), []string{"decoding"}},
		"no exact form": {linear(2, []float64{0.5, 0}, []float64{0, 1}), []string{"threshold", "readiness"}},
		"sine of no angle": {with(linear(2, noAngle(4)...), func(d *coded.Definition) {
			d.Modular = func(field.Prime) ([]coded.ModularTask, error) {
				var tasks []coded.ModularTask
				for w := range uint64(4) {
					tasks = append(tasks, coded.ModularTask{A: [][]uint64{{1, w}}, B: [][]uint64{{1}}})
				}
				return tasks, nil
			}
		}), []string{"readiness", "decoding"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(mustNew(t, test.d), source())
			if err == nil {
				t.Fatal("the code passes")
			}
			for _, law := range test.laws {
				if !strings.Contains("\n"+err.Error(), "\n"+law+": ") {
					t.Errorf("the law %q does not fail; what does: %v", law, err)
				}
			}
		})
	}
}

// noAngle is the trigonometric code of two columns with the first frequency of
// an odd k: the sine of frequency 0 says nothing.
func noAngle(n int) [][]float64 {
	g := make([][]float64, n)
	for w := range g {
		sin, cos := math.Sincos(0 * float64(w))
		g[w] = []float64{cos, sin}
	}
	return g
}
