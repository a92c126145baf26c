package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const lanes = 64 // sumLanes of the package

// overLanes emits a kernel that folds whole groups of 64 elements into 64 lanes
// of memory: n is a multiple of 64 and not 0.
func overLanes(s isa, name, sig, doc string, arrays []string, fold func(acc reg.VecVirtual, at []Mem)) {
	TEXT(name+s.name, NOSPLIT, sig)
	Doc(name + s.name + " " + doc)
	Pragma("noescape")
	to := load("lanes")
	var from []reg.GPVirtual
	for _, a := range arrays {
		from = append(from, load(a))
	}
	n := load("n")
	acc := make([]reg.VecVirtual, lanes/s.lanes)
	for j := range acc {
		acc[j] = s.vec()
		VMOVUPS(Mem{Base: to, Disp: j * s.bytes()}, acc[j])
	}
	Label("loop")
	for j, v := range acc {
		var at []Mem
		for _, f := range from {
			at = append(at, Mem{Base: f, Disp: j * s.bytes()})
		}
		fold(v, at)
	}
	for _, f := range from {
		ADDQ(I32(4*lanes), f)
	}
	SUBQ(Imm(lanes), n)
	JNZ(LabelRef("loop"))
	for j, v := range acc {
		VMOVUPS(v, Mem{Base: to, Disp: j * s.bytes()})
	}
	VZEROUPPER()
	RET()
}

func sums(s isa) {
	overLanes(s, "sum", "func(lanes, x *float32, n int)", "adds x to the lanes.", []string{"x"},
		func(acc reg.VecVirtual, at []Mem) { VADDPS(at[0], acc, acc) })
	overLanes(s, "dot", "func(lanes, a, b *float32, n int)", "adds a*b to the lanes.", []string{"a", "b"},
		func(acc reg.VecVirtual, at []Mem) {
			v := s.vec()
			VMOVUPS(at[0], v)
			VMULPS(at[1], v, v)
			VADDPS(v, acc, acc)
		})
}

// maxAbs compares magnitudes as integers: NaN is the largest.
func maxAbs(s isa) {
	var sign reg.VecVirtual
	overLanes(s, "maxAbs", "func(lanes *uint32, x *float32, n int)", "raises the lanes to the bits of the magnitudes in x.", []string{"x"},
		func(acc reg.VecVirtual, at []Mem) {
			sign = s.vec()
			VMOVUPS(at[0], sign)
			VPSLLD(Imm(1), sign, sign)
			VPSRLD(Imm(1), sign, sign)
			VPMAXUD(sign, acc, acc)
		})
}

// columnSums emits the sums of the columns of some rows, added to dst.
func columnSums(s isa) {
	const unroll = 8
	TEXT("columnSums"+s.name, NOSPLIT, "func(dst, x *float32, ld, rows, n int)")
	Doc(fmt.Sprintf("columnSums%s adds to dst the sums of n columns over some rows, at least 1.", s.name))
	Pragma("noescape")
	dst, x, ld, rows, n := load("dst"), load("x"), loadStride("ld"), load("rows"), load("n")
	i := GP64()
	XORQ(i, i)
	group := func(label string, unroll int, m *mask) {
		acc := make([]reg.VecVirtual, unroll)
		for j := range acc {
			acc[j] = s.vec()
			s.zero(acc[j])
		}
		left, from := GP64(), GP64()
		MOVQ(rows, left)
		LEAQ(Mem{Base: x, Index: i, Scale: 4}, from)
		Label(label + "rows")
		for j, v := range acc {
			at := Mem{Base: from, Disp: j * s.bytes()}
			if m == nil {
				VADDPS(at, v, v)
				continue
			}
			t := s.vec()
			s.load(at, t, m)
			VADDPS(t, v, v)
		}
		ADDQ(ld, from)
		DECQ(left)
		JNZ(LabelRef(label + "rows"))
		for j, v := range acc {
			at := Mem{Base: dst, Index: i, Scale: 4, Disp: j * s.bytes()}
			t := s.vec()
			s.load(at, t, m)
			VADDPS(v, t, t)
			s.store(t, at, m)
		}
	}
	s.sweep(i, n, unroll, func() { group("many", unroll, nil) }, func(m *mask) {
		if m == nil {
			group("single", 1, nil)
		} else {
			group("rest", 1, m)
		}
	})
	VZEROUPPER()
	RET()
}
