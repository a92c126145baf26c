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

// combine emits the weighted sum of some inputs, each read once.
func combine(s isa) {
	const unroll = 8
	TEXT("combine"+s.name, NOSPLIT, "func(dst, w *float32, xs *[]float32, count, off, n int, add bool)")
	Doc(fmt.Sprintf("combine%s sets dst (or adds to it) the sum of w[i]*xs[i][off:] over i < count.", s.name))
	Pragma("noescape")
	dst, w, xs, count, off, n := load("dst"), load("w"), load("xs"), load("count"), load("off"), load("n")
	add := GP32()
	MOVBLZX(addr("add"), add)
	LEAQ(Mem{Base: count, Index: count, Scale: 2}, count) // slices are 24 bytes apart
	i := GP64()
	XORQ(i, i)
	negative := s.vec() // -0, to which adding changes nothing
	bits := GP32()
	MOVL(U32(1<<31), bits)
	x := XMM()
	VMOVD(bits, x)
	VBROADCASTSS(x, negative)
	group := func(label string, unroll int, m *mask) {
		acc := make([]reg.VecVirtual, unroll)
		for j := range acc {
			acc[j] = s.vec()
			VMOVAPS(negative, acc[j])
		}
		TESTL(add, add)
		JZ(LabelRef(label + "start"))
		for j, v := range acc {
			s.load(Mem{Base: dst, Index: i, Scale: 4, Disp: j * s.bytes()}, v, m)
		}
		Label(label + "start")
		at, from, weight := GP64(), GP64(), GP64()
		XORQ(at, at)
		MOVQ(w, weight)
		Label(label + "inputs")
		CMPQ(at, count)
		JGE(LabelRef(label + "end"))
		MOVQ(Mem{Base: xs, Index: at, Scale: 8}, from)
		LEAQ(Mem{Base: from, Index: off, Scale: 4}, from)
		wv := s.vec()
		VBROADCASTSS(Mem{Base: weight}, wv)
		for j, v := range acc {
			t := s.vec()
			mem := Mem{Base: from, Index: i, Scale: 4, Disp: j * s.bytes()}
			if m == nil {
				VMULPS(mem, wv, t)
			} else {
				s.load(mem, t, m)
				VMULPS(wv, t, t)
			}
			VADDPS(t, v, v)
		}
		ADDQ(Imm(3), at)
		ADDQ(Imm(4), weight)
		JMP(LabelRef(label + "inputs"))
		Label(label + "end")
		for j, v := range acc {
			s.store(v, Mem{Base: dst, Index: i, Scale: 4, Disp: j * s.bytes()}, m)
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
