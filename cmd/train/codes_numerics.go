package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
)

// numericsSizes are the sizes, n tasks of which any k decode, at which codes are
// compared: those of the literature.
var numericsSizes = [][2]int{{6, 4}, {8, 6}, {10, 8}, {11, 8}, {12, 9}, {18, 15}, {24, 20}, {31, 28}, {40, 32}, {64, 60}}

// numericsRow is the condition of one code at one size.
type numericsRow struct {
	Code          string `json:"code"`
	N             int    `json:"n"`
	K             int    `json:"k"`
	Sets          int    `json:"sets"`
	Worst         figure `json:"worst"`
	Median        figure `json:"median"`
	Amplification figure `json:"amplification"`
}

// numerics measures every code of which any k of n tasks decode, at every size.
func (c *codesCmd) numerics(ctx context.Context, t terminal) error {
	out, closeOut, err := openRows(c.JSON, newBenchTable(t).add, t)
	if err != nil {
		return err
	}
	for _, f := range coded.Families() {
		if c.Name != "" && c.Name != f.Name {
			continue
		}
		for _, size := range numericsSizes {
			if err := errors.Join(ctx.Err(), c.numericsOf(f, size[0], size[1], out)); err != nil {
				return errors.Join(err, closeOut())
			}
		}
	}
	return closeOut()
}

// numericsOf gives the row of a family at a size, if it has a code of that
// threshold there.
func (c *codesCmd) numericsOf(f coded.Family, n, k int, out rows) error {
	spec, ok := numericsSpec(f, n, k)
	if !ok {
		return nil
	}
	spec.Seed = c.Seed
	if f.Uses&coded.UsesSeed == 0 {
		spec.Seed = 0
	}
	code, err := coded.New(spec)
	if err != nil || code.Threshold() != k {
		return nil // the family has no such size
	}
	cond, err := code.Conditions(c.Sets, rand.New(rand.NewPCG(1, uint64(n))))
	if err != nil {
		return err
	}
	return out(numericsRow{
		Code: f.Name, N: n, K: k, Sets: cond.Sets,
		Worst: figure(cond.Worst), Median: figure(cond.Median), Amplification: figure(cond.Amplification),
	})
}

// numericsSpec gives the spec of a family with threshold k: k blocks of one
// operand, or k = m q products of blocks with m and q as near as can be.
func numericsSpec(f coded.Family, n, k int) (coded.Spec, bool) {
	spec := coded.Spec{Name: f.Name, N: n}
	switch f.Uses &^ coded.UsesSeed {
	case coded.UsesK:
		spec.K = k
	case coded.UsesM | coded.UsesQ:
		for q := 1; q*q <= k; q++ {
			if k%q == 0 {
				spec.M, spec.Q = k/q, q
			}
		}
	case coded.UsesP:
		if k%2 == 0 {
			return spec, false
		}
		spec.P = (k + 1) / 2
	default:
		return spec, false
	}
	return spec, true
}
