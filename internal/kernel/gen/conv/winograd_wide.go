package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The matrices of Winograd's F(4x4, 3x3) with the points 0, +-1/sqrt 2, +-sqrt 2
// and infinity; winograd.go of the package names them.
var (
	wideInput = [][]float64{
		{1, 0, -2.5, 0, 1, 0},
		{0, -root, -2, half, 1, 0}, {0, root, -2, -half, 1, 0},
		{0, -half, -.5, root, 1, 0}, {0, half, -.5, -root, 1, 0},
		{0, 1, 0, -2.5, 0, 1},
	}
	wideOutput = [][]float64{
		{1, inner, inner, outer, outer, 0},
		{0, inner * half, -inner * half, outer * root, -outer * root, 0},
		{0, inner / 2, inner / 2, 2 * outer, 2 * outer, 0},
		{0, inner * half / 2, -inner * half / 2, 2 * outer * root, -2 * outer * root, 1},
	}
	wideWeights = [][]float64{{1, 0, 0}, {1, half, .5}, {1, -half, .5}, {.5, half, 1}, {.5, -half, 1}, {0, 0, 1}}
)

const (
	root  = math.Sqrt2
	half  = 1 / math.Sqrt2
	inner = -2. / 3 // what the products of the points +-half are weighted with
	outer = 1. / 3  // and those of +-root
)

func wideWinograd() {
	for _, s := range []isa{avx2, avx512} {
		wideSandwich(s, "wideInput", wideInput)
		wideSandwich(s, "wideOutput", wideOutput)
		wideSandwich(s, "wideOutputBack", transposed(wideOutput))
		wideSandwich(s, "wideWeights", wideWeights)
		wideSandwich(s, "wideWeightsBack", transposed(wideWeights))
	}
}

func transposed(p [][]float64) [][]float64 {
	t := make([][]float64, len(p[0]))
	for j := range t {
		for i := range p {
			t[j] = append(t[j], p[i][j])
		}
	}
	return t
}

// wideSandwich emits Y = P X P^T for matrices of vectors that are too large for
// registers: P X goes through the stack.
func wideSandwich(s isa, name string, p [][]float64) {
	const line = 64 // bytes of the cache, to which the vectors on the stack are aligned
	TEXT(name+s.name, 0, "func(dst *float32, dstRow, dstCol int, src *float32, srcRow, srcCol, n int)")
	Doc(fmt.Sprintf("%s%s sets dst = P src P^T, entry by entry of n, a multiple of 16: see sandwich.", name, s.name))
	Pragma("noescape")
	out, in := len(p), len(p[0])
	t := GP64()
	LEAQ(AllocLocal(out*in*4*s.lanes+line), t)
	ADDQ(Imm(line-1), t)
	ANDQ(I8(-line), t)
	between := func(i, j int) Mem { return Mem{Base: t, Disp: (i*in + j) * 4 * s.lanes} }
	src, dst, n := bytesOf("src", false), bytesOf("dst", false), bytesOf("n", false)
	x, y := newRay("srcRow", "srcCol"), newRay("dstCol", "dstRow")
	v := vectors{s, map[float64]Op{}}
	v.constants(p)
	Label("loop")
	x.start(src)
	for j := range in {
		for i, r := range v.times(p, func(i int) Op { return x.at(i) }) {
			VMOVUPS(r, between(i, j))
		}
		x.next()
	}
	y.start(dst)
	for i := range out {
		for j, r := range v.times(p, func(j int) Op { return between(i, j) }) {
			VMOVUPS(r, y.at(j))
		}
		y.next()
	}
	ADDQ(Imm(uint64(4*s.lanes)), src)
	ADDQ(Imm(uint64(4*s.lanes)), dst)
	SUBQ(Imm(uint64(s.lanes)), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// bytesOf loads a parameter; a number of elements is turned into bytes.
func bytesOf(param string, elements bool) reg.GPVirtual {
	r := Load(Param(param), GP64()).(reg.GPVirtual)
	if elements {
		SHLQ(Imm(2), r)
	}
	return r
}

// ray addresses up to six elements in one direction of a matrix, and goes on in the
// other.
type ray struct{ along, along3, across, p, q reg.GPVirtual }

func newRay(along, across string) ray {
	r := ray{bytesOf(along, true), GP64(), bytesOf(across, true), GP64(), GP64()}
	LEAQ(Mem{Base: r.along, Index: r.along, Scale: 2}, r.along3)
	return r
}

func (r ray) start(at reg.GPVirtual) {
	MOVQ(at, r.p)
	LEAQ(Mem{Base: at, Index: r.along3, Scale: 1}, r.q)
}

func (r ray) next() {
	ADDQ(r.across, r.p)
	ADDQ(r.across, r.q)
}

func (r ray) at(i int) Mem {
	base := []reg.GPVirtual{r.p, r.q}[i/3]
	if i%3 == 0 {
		return Mem{Base: base}
	}
	return Mem{Base: base, Index: r.along, Scale: uint8(i % 3)}
}

// vectors emits small sums of products with constants.
type vectors struct {
	isa
	held map[float64]Op
}

// constants makes those of a matrix: in registers, if there are enough.
func (v vectors) constants(p [][]float64) {
	for _, f := range factors(p) {
		m := vectorOf(float32(f))
		v.held[f] = m
		if v.lanes == 16 {
			r := ZMM()
			VBROADCASTSS(m, r)
			v.held[f] = r
		}
	}
}

var wideConstants = map[float32]Mem{}

// vectorOf returns a constant in memory, once for each lane of AVX2.
func vectorOf(f float32) Mem {
	if m, ok := wideConstants[f]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("wide%08x", math.Float32bits(f)), attr.RODATA|attr.NOPTR)
	for i := range 8 {
		DATA(4*i, U32(math.Float32bits(f)))
	}
	wideConstants[f] = m
	return m
}

// term is a factor, not 0, of the value number i.
type term struct {
	by float64
	i  int
}

// row returns the terms of a row.
func row(p []float64) (terms []term) {
	for i, f := range p {
		if f != 0 {
			terms = append(terms, term{f, i})
		}
	}
	return terms
}

// plan is a product with a matrix: sums and differences of pairs of values, for a
// matrix with pairs of columns (each equal, or opposite), then sums of terms, then
// sums and differences of those, for pairs of rows.
type plan struct {
	columns bool     // values 1 and 2, and 3 and 4, are replaced by sum and difference
	sums    [][]term // of each row, or in a pair of rows what they have in common
	others  [][]term // of the first row of a pair: what the second one has with the opposite sign, over by
	by      []float64
}

func planOf(p [][]float64) (l plan) {
	l.columns = len(p) < len(p[0])
	for i := 0; i < len(p); i++ {
		switch {
		case l.columns:
			l.sums, l.others, l.by = append(l.sums, row(paired(p[i]))), append(l.others, nil), append(l.by, 0)
		case i == 0 || i == len(p)-1:
			l.sums, l.others, l.by = append(l.sums, row(p[i])), append(l.others, nil), append(l.by, 0)
		default:
			same, opposite := apart(p[i], p[i+1])
			by := opposite[len(opposite)-1].by
			for k := range opposite {
				opposite[k].by = rounded(opposite[k].by / by)
			}
			l.sums, l.others, l.by = append(l.sums, same), append(l.others, opposite), append(l.by, by)
			i++
		}
	}
	return l
}

// rounded drops the rounding error of what is a multiple of 1/2.
func rounded(f float64) float64 {
	if n := math.Round(2*f) / 2; math.Abs(n-f) < 1e-12 {
		return n
	}
	return f
}

// paired replaces the factors of two values by that of their sum or difference.
func paired(p []float64) []float64 {
	p = append([]float64(nil), p...)
	for i := 1; i+1 < len(p)-1; i += 2 {
		switch {
		case p[i] == p[i+1]:
			p[i+1] = 0
		case p[i] == -p[i+1]:
			p[i] = 0
			p[i+1] *= -1
		default:
			panic("not a pair of columns")
		}
	}
	return p
}

// apart splits two rows into what they have in common and what is opposite.
func apart(p, q []float64) (same, opposite []term) {
	for i := range p {
		switch {
		case p[i] == q[i] && p[i] != 0:
			same = append(same, term{p[i], i})
		case p[i] == -q[i] && p[i] != 0:
			opposite = append(opposite, term{p[i], i})
		case p[i] != 0:
			panic("not a pair of rows")
		}
	}
	return same, opposite
}

// factors lists the constants that a product needs, without sign.
func factors(p [][]float64) (list []float64) {
	l := planOf(p)
	seen := map[float64]bool{1: true, 0: true}
	add := func(f float64) {
		if f = math.Abs(f); !seen[f] {
			seen[f] = true
			list = append(list, f)
		}
	}
	for i := range l.sums {
		for _, t := range l.sums[i] {
			add(t.by)
		}
		for _, t := range l.others[i] {
			add(t.by)
		}
		add(l.by[i])
	}
	return list
}

// times emits P x.
func (v vectors) times(p [][]float64, at func(i int) Op) (y []reg.VecVirtual) {
	l := planOf(p)
	x := make([]reg.VecVirtual, len(p[0]))
	for i := range x {
		x[i] = v.vector()
		VMOVUPS(at(i), x[i])
	}
	for i := 1; l.columns && i+1 < len(x)-1; i += 2 {
		sum, difference := v.vector(), v.vector()
		VADDPS(x[i+1], x[i], sum)
		VSUBPS(x[i+1], x[i], difference)
		x[i], x[i+1] = sum, difference
	}
	for i := range l.sums {
		sum := v.sum(l.sums[i], x)
		if l.others[i] == nil {
			y = append(y, sum)
			continue
		}
		other, second := v.sum(l.others[i], x), v.vector()
		VMOVUPS(sum, second)
		v.add(l.by[i], other, sum)
		v.add(-l.by[i], other, second)
		y = append(y, sum, second)
	}
	return y
}

// sum emits a sum of terms, first one that needs no product if there is one.
func (v vectors) sum(terms []term, x []reg.VecVirtual) reg.VecVirtual {
	first := 0
	for i, t := range terms {
		if t.by == 1 {
			first = i
		}
	}
	y := v.vector()
	switch t := terms[first]; {
	case t.by == 1:
		VMOVUPS(x[t.i], y)
	case t.by > 0:
		VMULPS(v.held[t.by], x[t.i], y)
	default:
		v.zero(y)
		v.add(t.by, x[t.i], y)
	}
	for i, t := range terms {
		if i != first {
			v.add(t.by, x[t.i], y)
		}
	}
	return y
}

// add emits y += by*x.
func (v vectors) add(by float64, x, y reg.VecVirtual) {
	switch {
	case by == 1:
		VADDPS(x, y, y)
	case by == -1:
		VSUBPS(x, y, y)
	case by > 0:
		VFMADD231PS(v.held[by], x, y)
	default:
		VFNMADD231PS(v.held[-by], x, y)
	}
}
