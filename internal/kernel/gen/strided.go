package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// strided describes a kernel over rows of n elements with a stride, of the same
// shape in each of some arrays. It may add to two sums in 32 lanes each, at m
// and m+32: lane l adds the columns l, l+32, ... of one row after another.
type strided struct {
	name    string
	doc     string
	sums    int      // how many sums
	arrays  []string // pointers, in the order of the parameters
	scalars []string // float32 parameters at the end
	out     []string // the arrays that are written
	in      []string // the arrays that are read
	// body computes the outputs of one vector, and under "sum0" and "sum1" what
	// is added to the sums.
	body func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual
}

type vectorMap = map[string]reg.VecVirtual

const momentLanes = 32

// layers emits the kernels of normalisation and the activations.
func layers() {
	for _, s := range []isa{avx2, avx512} {
		for _, k := range stridedKernels {
			k.emit(s)
		}
		planar(s)
		for _, e := range layerNormKernels {
			e.emit(s)
		}
		for _, e := range activationKernels {
			e.emit(s)
		}
	}
}

// norm gives (x-mean)*scale + beta.
func (s isa) norm(v vectorMap) reg.VecVirtual {
	return s.add(s.mul(s.sub(v["x"], v["mean"]), v["scale"]), v["beta"])
}

func (s isa) gradSums(g reg.VecVirtual, v vectorMap) vectorMap {
	return vectorMap{"sum0": g, "sum1": s.mul(g, s.sub(v["x"], v["mean"]))}
}

func (s isa) normBack(g reg.VecVirtual, v vectorMap) vectorMap {
	g = s.sub(g, s.mul(s.sub(v["x"], v["mean"]), v["slope"]))
	return one("dx", s.mul(s.sub(g, v["rest"]), v["scale"]))
}

var (
	affineScalars = []string{"mean", "scale", "beta"}
	backScalars   = []string{"mean", "scale", "beta", "slope", "rest"}
)

var stridedKernels = []strided{
	{"sumPlanes", "adds x", 1, []string{"x"}, nil, nil, []string{"x"},
		func(s isa, v vectorMap) vectorMap { return one("sum0", v["x"]) }},
	{"moments", "adds x-near and its square", 2, []string{"x"}, []string{"near"}, nil, []string{"x"},
		func(s isa, v vectorMap) vectorMap {
			d := s.sub(v["x"], v["near"])
			return vectorMap{"sum0": d, "sum1": s.mul(d, d)}
		}},
	{"norm", "sets y = (x-mean)*scale + beta", 0, []string{"y", "x"}, affineScalars, []string{"y"}, []string{"x"},
		func(s isa, v vectorMap) vectorMap { return one("y", s.norm(v)) }},
	{"normReLU", "sets y = max((x-mean)*scale + beta, 0)", 0, []string{"y", "x"}, affineScalars, []string{"y"}, []string{"x"},
		func(s isa, v vectorMap) vectorMap { return one("y", s.relu(s.norm(v))) }},
	{"normAdd", "sets y = (x-mean)*scale + beta + r", 0, []string{"y", "x", "r"}, affineScalars, []string{"y"}, []string{"x", "r"},
		func(s isa, v vectorMap) vectorMap { return one("y", s.add(s.norm(v), v["r"])) }},
	{"normAddReLU", "sets y = max((x-mean)*scale + beta + r, 0)", 0, []string{"y", "x", "r"}, affineScalars, []string{"y"}, []string{"x", "r"},
		func(s isa, v vectorMap) vectorMap { return one("y", s.relu(s.add(s.norm(v), v["r"]))) }},
	{"grad", "adds g = dy and g*(x-mean)", 2, []string{"dy", "x"}, affineScalars, nil, []string{"dy", "x"},
		func(s isa, v vectorMap) vectorMap { return s.gradSums(v["dy"], v) }},
	{"gradReLU", "adds g and g*(x-mean), with g = dy where ReLU let pass", 2, []string{"dy", "x"}, affineScalars, nil, []string{"dy", "x"},
		func(s isa, v vectorMap) vectorMap { return s.gradSums(s.where(s.norm(v), v["dy"]), v) }},
	{"gradMasked", "sets kept = dy, or 0 where y <= 0, and adds kept and kept*(x-mean)", 2, []string{"kept", "dy", "x", "y"}, affineScalars, []string{"kept"}, []string{"dy", "x", "y"},
		func(s isa, v vectorMap) vectorMap {
			g := s.where(v["y"], v["dy"])
			m := s.gradSums(g, v)
			m["kept"] = g
			return m
		}},
	{"normBack", "sets dx = (dy - (x-mean)*slope - rest) * scale", 0, []string{"dx", "dy", "x"}, backScalars, []string{"dx"}, []string{"dy", "x"},
		func(s isa, v vectorMap) vectorMap { return s.normBack(v["dy"], v) }},
	{"normBackReLU", "is normBack with dy = 0 where ReLU did not let pass", 0, []string{"dx", "dy", "x"}, backScalars, []string{"dx"}, []string{"dy", "x"},
		func(s isa, v vectorMap) vectorMap { return s.normBack(s.where(s.norm(v), v["dy"]), v) }},
	{"layerNormGrad", "adds g = dy*gamma and g*(x-mean)", 2, []string{"dy", "x", "gamma"}, []string{"mean"}, nil, []string{"dy", "x", "gamma"},
		func(s isa, v vectorMap) vectorMap { return s.gradSums(s.mul(v["dy"], v["gamma"]), v) }},
}

var layerNormKernels = []elementwise{
	{"layerNorm", "sets y = (x-mean)*inv*gamma + beta", []string{"y", "x", "gamma", "beta"}, []string{"mean", "inv"}, []string{"y"}, []string{"x", "gamma", "beta"}, 2,
		func(s isa, v vectorMap) vectorMap {
			return one("y", s.add(s.mul(s.mul(s.sub(v["x"], v["mean"]), v["inv"]), v["gamma"]), v["beta"]))
		}},
	{"layerNormBack", "sets dx = (dy*gamma - (x-mean)*slope - rest) * inv", []string{"dx", "dy", "x", "gamma"}, []string{"mean", "inv", "slope", "rest"}, []string{"dx"}, []string{"dy", "x", "gamma"}, 2,
		func(s isa, v vectorMap) vectorMap {
			g := s.sub(s.mul(v["dy"], v["gamma"]), s.mul(s.sub(v["x"], v["mean"]), v["slope"]))
			return one("dx", s.mul(s.sub(g, v["rest"]), v["inv"]))
		}},
	{"layerNormParams", "adds dy*(x-mean)*inv to dgamma and dy to dbeta", []string{"dgamma", "dbeta", "dy", "x"}, []string{"mean", "inv"},
		[]string{"dgamma", "dbeta"}, []string{"dgamma", "dbeta", "dy", "x"}, 1,
		func(s isa, v vectorMap) vectorMap {
			d := s.mul(v["dy"], s.mul(s.sub(v["x"], v["mean"]), v["inv"]))
			return vectorMap{"dgamma": s.add(v["dgamma"], d), "dbeta": s.add(v["dbeta"], v["dy"])}
		}},
	{"shift", "sets dst = (x-a) - b", []string{"dst", "x"}, []string{"a", "b"}, []string{"dst"}, []string{"x"}, 4,
		func(s isa, v vectorMap) vectorMap { return one("dst", s.sub(s.sub(v["x"], v["a"]), v["b"])) }},
	{"softmaxBack", "sets dx = y * (dy-dot)", []string{"dx", "dy", "y"}, []string{"dot"}, []string{"dx"}, []string{"dy", "y"}, 4,
		func(s isa, v vectorMap) vectorMap { return one("dx", s.mul(v["y"], s.sub(v["dy"], v["dot"]))) }},
}

func (k strided) signature() string {
	sig := "func("
	if k.sums > 0 {
		sig += "m, "
	}
	sig += strings.Join(k.arrays, ", ") + " *float32, ld, rows, n int"
	if len(k.scalars) > 0 {
		sig += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	return sig + ")"
}

func (k strided) emit(s isa) {
	TEXT(k.name+s.name, NOSPLIT, k.signature())
	Doc(fmt.Sprintf("%s%s %s, over at least one row of at least one element.", k.name, s.name, k.doc))
	Pragma("noescape")
	at := map[string]reg.GPVirtual{}
	for _, a := range k.arrays {
		at[a] = load(a)
	}
	scalars := vectorMap{}
	for _, x := range k.scalars {
		scalars[x] = s.broadcast(x)
	}
	ld, rows, n := loadStride("ld"), load("rows"), load("n")
	wide := momentLanes / s.lanes
	acc := make([][]reg.VecVirtual, k.sums)
	k.eachLane(s, acc, func(m Mem, i, u int) {
		acc[i] = append(acc[i], s.vec())
		VMOVUPS(m, acc[i][u])
	})
	tail := GP64()
	MOVQ(n, tail)
	ANDQ(Imm(uint64(s.lanes-1)), tail)
	rest := s.maskOf(tail) // nothing is done with it if the tail is empty
	i, left := GP64(), GP64()
	group := func(u, disp int, m *mask) {
		v := vectorMap{}
		for name, x := range scalars {
			v[name] = x
		}
		for _, name := range k.in {
			v[name] = s.vec()
			s.load(Mem{Base: at[name], Index: i, Scale: 4, Disp: disp}, v[name], m)
		}
		res := k.body(s, v)
		for _, name := range k.out {
			s.store(res[name], Mem{Base: at[name], Index: i, Scale: 4, Disp: disp}, m)
		}
		for j := range acc {
			s.accumulate(acc[j][u], res[fmt.Sprintf("sum%d", j)], m)
		}
	}
	Label("row")
	XORQ(i, i)
	MOVQ(n, left)
	SUBQ(Imm(momentLanes), left)
	JL(LabelRef("few"))
	Label("wide")
	for u := range wide {
		group(u, u*s.bytes(), nil)
	}
	ADDQ(Imm(momentLanes), i)
	SUBQ(Imm(momentLanes), left)
	JGE(LabelRef("wide"))
	Label("few")
	ADDQ(Imm(momentLanes), left)
	for u := range wide {
		whole := fmt.Sprintf("whole%d", u)
		CMPQ(left, Imm(uint64(s.lanes)))
		JGE(LabelRef(whole))
		TESTQ(left, left)
		JZ(LabelRef("next"))
		group(u, 0, &rest)
		JMP(LabelRef("next"))
		Label(whole)
		if u == wide-1 { // cannot be: less than 32 are left
			break
		}
		group(u, 0, nil)
		ADDQ(Imm(uint64(s.lanes)), i)
		SUBQ(Imm(uint64(s.lanes)), left)
	}
	Label("next")
	for _, a := range k.arrays {
		ADDQ(ld, at[a])
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	k.eachLane(s, acc, func(m Mem, i, u int) { VMOVUPS(acc[i][u], m) })
	VZEROUPPER()
	RET()
}

// eachLane calls f for each vector of the sums with its place in memory.
func (k strided) eachLane(s isa, acc [][]reg.VecVirtual, f func(m Mem, i, u int)) {
	if k.sums == 0 {
		return
	}
	m := load("m")
	for i := range acc {
		for u := range momentLanes / s.lanes {
			f(Mem{Base: m, Disp: 4*momentLanes*i + u*s.bytes()}, i, u)
		}
	}
}

// accumulate adds v to acc, in the mask's lanes only.
func (s isa) accumulate(acc, v reg.VecVirtual, m *mask) {
	switch {
	case m == nil:
		VADDPS(v, acc, acc)
	case s.lanes == 16:
		VADDPS(v, acc, m.k, acc)
	default: // a sum is never -0, so adding 0 does not change it
		t := s.vec()
		VANDPS(m.y, v, t)
		VADDPS(t, acc, acc)
	}
}
