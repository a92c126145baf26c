package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// optimiser describes the step of an optimiser on n elements. Unlike an
// elementwise kernel it takes its operands when it needs them: with all of
// them in registers from the start, AVX2 has too few.
type optimiser struct {
	name    string
	doc     string
	arrays  []string // pointers, in the order of the parameters
	scalars []string // float32 parameters after n
	unroll  int
	body    func(s isa, o operands)
}

// operands gives the operands of one vector of a step.
type operands struct {
	get func(name string) reg.VecVirtual // an element of an array, or a scalar
	put func(name string, v reg.VecVirtual)
}

func optimisers() {
	for _, s := range []isa{avx2, avx512} {
		for _, o := range optimiserKernels {
			o.emit(s)
		}
		for _, o := range optimiserKernels[:3] {
			o.emitTile(s)
		}
		sumSquares(s)
	}
}

var (
	sgdScalars  = []string{"scale", "decay", "lr"}
	sgdMoving   = []string{"scale", "decay", "momentum", "lr"}
	adamScalars = []string{"scale", "decay", "beta1", "rest1", "beta2", "rest2", "root", "eps", "step", "shrink"}
	rmsScalars  = []string{"scale", "decay", "keep", "rest", "eps", "lr"}
	rmsMoving   = []string{"scale", "decay", "keep", "rest", "eps", "momentum", "lr"}
)

var optimiserKernels = []optimiser{
	{"sgd", "makes a step of SGD", []string{"w", "grad"}, sgdScalars, 2, func(s isa, o operands) {
		w := o.get("w")
		o.put("w", s.sub(w, s.mul(o.get("lr"), penalised(s, o, w))))
	}},
	{"sgdMomentum", "makes a step of SGD with momentum", []string{"w", "velocity", "grad"}, sgdMoving, 2, sgdMomentum(false)},
	{"sgdNesterov", "makes a step of SGD with Nesterov's momentum", []string{"w", "velocity", "grad"}, sgdMoving, 2, sgdMomentum(true)},
	{"adam", "makes a step of Adam, see adamConstants; dst may be w", []string{"dst", "w", "m", "v", "grad"}, adamScalars, 1, func(s isa, o operands) {
		w := o.get("w")
		m, v := moments(s, o, w)
		o.put("dst", adamMoved(s, o, w, m, v))
	}},
	{"amsgrad", "makes a step of Adam that divides by the largest v", []string{"w", "m", "v", "most", "grad"}, adamScalars, 1, func(s isa, o operands) {
		w := o.get("w")
		m, v := moments(s, o, w)
		most := s.vec()
		VMAXPS(v, o.get("most"), most) // v if one is NaN
		o.put("most", most)
		o.put("w", adamMoved(s, o, w, m, most))
	}},
	{"rms", "makes a step of RMSProp or Adagrad, see rmsConstants", []string{"w", "v", "grad"}, rmsScalars, 1, func(s isa, o operands) {
		w := o.get("w")
		g := penalised(s, o, w)
		d := rmsRoot(s, o, g)
		o.put("w", s.sub(w, s.div(s.mul(o.get("lr"), g), d)))
	}},
	{"rmsMomentum", "makes a step of RMSProp with momentum", []string{"w", "v", "velocity", "grad"}, rmsMoving, 1, func(s isa, o operands) {
		w := o.get("w")
		g := penalised(s, o, w)
		d := rmsRoot(s, o, g)
		velocity := s.add(s.mul(o.get("momentum"), o.get("velocity")), s.div(g, d))
		o.put("velocity", velocity)
		o.put("w", s.sub(w, s.mul(o.get("lr"), velocity)))
	}},
}

// penalised is the scaled gradient with the L2 penalty.
func penalised(s isa, o operands, w reg.VecVirtual) reg.VecVirtual {
	return s.add(s.mul(o.get("scale"), o.get("grad")), s.mul(o.get("decay"), w))
}

func sgdMomentum(nesterov bool) func(s isa, o operands) {
	return func(s isa, o operands) {
		w := o.get("w")
		g := penalised(s, o, w)
		velocity := s.add(s.mul(o.get("momentum"), o.get("velocity")), g)
		o.put("velocity", velocity)
		step := velocity
		if nesterov {
			step = s.add(g, s.mul(o.get("momentum"), velocity))
		}
		o.put("w", s.sub(w, s.mul(o.get("lr"), step)))
	}
}

// moments brings Adam's two moments up to date.
func moments(s isa, o operands, w reg.VecVirtual) (m, v reg.VecVirtual) {
	g := penalised(s, o, w)
	m = s.add(s.mul(o.get("beta1"), o.get("m")), s.mul(o.get("rest1"), g))
	o.put("m", m)
	v = s.add(s.mul(o.get("beta2"), o.get("v")), s.mul(s.mul(o.get("rest2"), g), g))
	o.put("v", v)
	return m, v
}

// adamMoved is shrink*w - step*m/(root*sqrt(v)+eps).
func adamMoved(s isa, o operands, w, m, v reg.VecVirtual) reg.VecVirtual {
	d := s.add(s.mul(o.get("root"), s.sqrt(v)), o.get("eps"))
	return s.sub(s.mul(o.get("shrink"), w), s.div(s.mul(o.get("step"), m), d))
}

// rmsRoot brings the mean square up to date and gives sqrt(v)+eps.
func rmsRoot(s isa, o operands, g reg.VecVirtual) reg.VecVirtual {
	v := s.add(s.mul(o.get("keep"), o.get("v")), s.mul(s.mul(o.get("rest"), g), g))
	o.put("v", v)
	return s.add(s.sqrt(v), o.get("eps"))
}

func (s isa) sqrt(x reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VSQRTPS(x, v)
	return v
}

func (s isa) div(a, b reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VDIVPS(b, a, v)
	return v
}

func (k optimiser) emit(s isa) {
	TEXT(k.name+s.name, NOSPLIT, fmt.Sprintf("func(%s *float32, n int, %s float32)", strings.Join(k.arrays, ", "), strings.Join(k.scalars, ", ")))
	Doc(fmt.Sprintf("%s%s %s.", k.name, s.name, k.doc))
	Pragma("noescape")
	at, scalars := k.params(s)
	i, n := GP64(), load("n")
	XORQ(i, i)
	group := func(u int, m *mask) {
		k.vector(s, scalars, func(name string) (Mem, bool) {
			return Mem{Base: at[name], Index: i, Scale: 4, Disp: u * s.bytes()}, at[name] != nil
		}, m)
	}
	s.sweep(i, n, k.unroll, func() {
		for u := range k.unroll {
			group(u, nil)
		}
	}, func(m *mask) { group(0, m) })
	VZEROUPPER()
	RET()
}

// emitTile emits the step for the rows of a tile of the matrix product. The gradient
// lies row after row, those of the other arrays are ld elements apart.
func (k optimiser) emitTile(s isa) {
	vecs := map[int]int{8: 2, 16: 3}[s.lanes]
	name := fmt.Sprintf("%sTile%d%s", k.name, vecs*s.lanes, s.name)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(%s *float32, ld, rows int, %s float32)", strings.Join(k.arrays, ", "), strings.Join(k.scalars, ", ")))
	Doc(fmt.Sprintf("%s %s on rows of %d elements.", name, k.doc, vecs*s.lanes))
	Pragma("noescape")
	at, scalars := k.params(s)
	ld, rows := loadStride("ld"), load("rows")
	Label("row")
	for u := range vecs {
		k.vector(s, scalars, func(name string) (Mem, bool) {
			return Mem{Base: at[name], Disp: u * s.bytes()}, at[name] != nil
		}, nil)
	}
	for _, a := range k.arrays {
		if a == "grad" {
			ADDQ(Imm(uint64(vecs*s.bytes())), at[a])
		} else {
			ADDQ(ld, at[a])
		}
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// params loads the pointers, and the scalars if there are registers for them.
func (k optimiser) params(s isa) (at map[string]reg.GPVirtual, scalars map[string]reg.VecVirtual) {
	at, scalars = map[string]reg.GPVirtual{}, map[string]reg.VecVirtual{}
	for _, a := range k.arrays {
		at[a] = load(a)
	}
	if fit := s.lanes == 16 || len(k.scalars) < 8; fit {
		for _, x := range k.scalars {
			scalars[x] = s.broadcast(x)
		}
	}
	return at, scalars
}

// vector emits the step of one vector, whose element tells where an array has it.
func (k optimiser) vector(s isa, scalars map[string]reg.VecVirtual, element func(name string) (Mem, bool), m *mask) {
	k.body(s, operands{
		get: func(name string) reg.VecVirtual {
			if at, ok := element(name); ok {
				v := s.vec()
				s.load(at, v, m)
				return v
			}
			if v, ok := scalars[name]; ok {
				return v
			}
			return s.broadcast(name)
		},
		put: func(name string, v reg.VecVirtual) {
			at, _ := element(name)
			s.store(v, at, m)
		},
	})
}

// sumSquares adds the squares of n elements, a multiple of 32 and not 0, to 32
// lanes of float64, in which they are exact.
func sumSquares(s isa) {
	const lanes = 32
	TEXT("sumSquares"+s.name, NOSPLIT, "func(lanes *float64, x *float32, n int)")
	Doc(fmt.Sprintf("sumSquares%s adds the squares of n elements, a multiple of 32, to 32 lanes.", s.name))
	Pragma("noescape")
	dst, x, n := load("lanes"), load("x"), load("n")
	width := s.lanes / 2
	var sums [16]reg.VecVirtual
	parts := lanes / width
	for p := range parts {
		sums[p] = s.vec()
		VMOVUPD(Mem{Base: dst, Disp: 8 * width * p}, sums[p])
	}
	Label("many")
	for p := range parts {
		v := s.vec()
		VCVTPS2PD(Mem{Base: x, Disp: 4 * width * p}, v)
		VFMADD231PD(v, v, sums[p])
	}
	ADDQ(Imm(4*lanes), x)
	SUBQ(Imm(lanes), n)
	JNZ(LabelRef("many"))
	for p := range parts {
		VMOVUPD(sums[p], Mem{Base: dst, Disp: 8 * width * p})
	}
	VZEROUPPER()
	RET()
}
