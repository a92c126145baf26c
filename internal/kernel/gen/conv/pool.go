package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// indices emits a vector of 16 indices.
func indices(name string, f func(i int) int) Mem {
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32(f(i)))
	}
	return m
}

// Predicates of VCMPPS.
const (
	less      = 0x11 // below, false for NaN
	lessEqual = 0x12 // at most, false for NaN
	unordered = 0x03 // one is NaN
)

// pairsLoop emits the loops over pairs of rows of w entries and, inside, over
// blocks of up to 16 windows. body gets the addresses of the block's entries in
// both rows and the masks of the windows and of each half of the entries.
func pairsLoop(rows, w reg.Register, body func(top, bottom reg.Register, windows, low, high reg.OpmaskVirtual), x reg.Register, next func(n reg.Register)) {
	left, bottom, two := GP64(), GP64(), GP64()
	MOVQ(w, two)
	SHLQ(Imm(3), two) // bytes of two rows
	Label("pair")
	top := GP64()
	MOVQ(x, top)
	LEAQ(Mem{Base: x, Index: w, Scale: 4}, bottom)
	MOVQ(w, left)
	SHRQ(Imm(1), left)
	Label("block")
	n, m := GP64(), GP64()
	MOVQ(left, n)
	CMPQ(n, Imm(16))
	JLE(LabelRef("short"))
	MOVQ(U32(16), n)
	Label("short")
	windows := lanesMask(n)
	bits, shifted, low, high := GP64(), GP64(), K(), K()
	MOVQ(n, m)
	ADDQ(n, m)
	MOVQ(U64(0xffffffff), bits)
	BZHIQ(m, bits, bits)
	KMOVW(bits.As32(), low)
	MOVQ(bits, shifted)
	SHRQ(Imm(16), shifted)
	KMOVW(shifted.As32(), high)
	body(top, bottom, windows, low, high)
	next(n)
	LEAQ(Mem{Base: top, Index: n, Scale: 8}, top)
	LEAQ(Mem{Base: bottom, Index: n, Scale: 8}, bottom)
	SUBQ(n, left)
	JNZ(LabelRef("block"))
	ADDQ(two, x)
	DECQ(rows)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

func maxPool() {
	even := indices("poolEven", func(i int) int { return 2 * i })
	odd := indices("poolOdd", func(i int) int { return 2*i + 1 })
	TEXT("maxPoolPairsAVX512", NOSPLIT, "func(y *float32, choice *uint16, x *float32, w, pairs int, relu uint16)")
	Doc("maxPoolPairsAVX512 pools 2 x 2 windows of pairs of rows of w entries; relu is 0xffff for ReLU, else 0.")
	Pragma("noescape")
	y, choice, x := Load(Param("y"), GP64()), Load(Param("choice"), GP64()), Load(Param("x"), GP64())
	w, pairs := Load(Param("w"), GP64()), Load(Param("pairs"), GP64())
	r, relu := GP32(), K()
	MOVWLZX(must(Param("relu").Resolve()).Addr, r)
	KMOVW(r, relu)
	ei, oi, zero, dead := ZMM(), ZMM(), ZMM(), ZMM()
	VMOVDQU32(even, ei)
	VMOVDQU32(odd, oi)
	VPXORD(zero, zero, zero)
	VPTERNLOGD(Imm(0xff), dead, dead, dead)
	places := [4]reg.VecVirtual{zero}
	for i := 1; i < 4; i++ {
		c := GP32()
		places[i] = ZMM()
		MOVL(U32(i), c)
		VPBROADCASTD(c, places[i])
	}
	pairsLoop(pairs, w, func(top, bottom reg.Register, windows, low, high reg.OpmaskVirtual) {
		var v [4]reg.VecVirtual
		for i, row := range []reg.Register{top, bottom} {
			a, b := ZMM(), ZMM()
			VMOVUPS_Z(Mem{Base: row}, low, a)
			VMOVUPS_Z(Mem{Base: row, Disp: 64}, high, b)
			v[2*i], v[2*i+1] = ZMM(), ZMM()
			VMOVAPS(a, v[2*i])
			VPERMT2PS(b, ei, v[2*i])
			VMOVAPS(a, v[2*i+1])
			VPERMT2PS(b, oi, v[2*i+1])
		}
		best, place := v[0], ZMM()
		VPXORD(place, place, place)
		for i := 1; i < 4; i++ {
			more, nan := K(), K()
			VCMPPS(Imm(less), v[i], best, more)
			VCMPPS(Imm(unordered), v[i], v[i], nan)
			KORW(more, nan, more)
			VMOVAPS(v[i], more, best)
			VMOVDQA32(places[i], more, place)
		}
		none := K()
		VCMPPS(Imm(lessEqual), zero, best, none)
		KANDW(relu, none, none)
		VMOVAPS(zero, none, best)
		VMOVDQA32(dead, none, place)
		VMOVUPS(best, windows, Mem{Base: y})
		VPMOVDW(place, windows, Mem{Base: choice})
	}, x, func(n reg.Register) {
		LEAQ(Mem{Base: y, Index: n, Scale: 4}, y)
		LEAQ(Mem{Base: choice, Index: n, Scale: 2}, choice)
	})
}

func maxPoolBackward() {
	low8 := indices("poolLow", func(i int) int { return i/2 + i%2*16 })
	high8 := indices("poolHigh", func(i int) int { return 8 + i/2 + i%2*16 })
	TEXT("unpoolPairsAVX512", NOSPLIT, "func(dx, dy *float32, choice *uint16, w, pairs int)")
	Doc("unpoolPairsAVX512 is the gradient of maxPoolPairsAVX512: it writes the even number of entries of each row that windows cover.")
	Pragma("noescape")
	dx, dy, choice := Load(Param("dx"), GP64()), Load(Param("dy"), GP64()), Load(Param("choice"), GP64())
	w, pairs := Load(Param("w"), GP64()), Load(Param("pairs"), GP64())
	li, hi := ZMM(), ZMM()
	VMOVDQU32(low8, li)
	VMOVDQU32(high8, hi)
	var places [4]reg.VecVirtual
	for i := range places {
		c := GP32()
		places[i] = ZMM()
		MOVL(U32(i), c)
		VPBROADCASTD(c, places[i])
	}
	pairsLoop(pairs, w, func(top, bottom reg.Register, windows, low, high reg.OpmaskVirtual) {
		d, place := ZMM(), ZMM()
		VMOVUPS_Z(Mem{Base: dy}, windows, d)
		VPMOVZXWD_Z(Mem{Base: choice}, windows, place)
		var v [4]reg.VecVirtual
		for i := range v {
			here := K()
			v[i] = ZMM()
			VPCMPEQD(places[i], place, here)
			VMOVAPS_Z(d, here, v[i])
		}
		for i, row := range []reg.Register{top, bottom} {
			a, b := ZMM(), ZMM()
			VMOVAPS(v[2*i], a)
			VPERMT2PS(v[2*i+1], li, a)
			VMOVAPS(v[2*i], b)
			VPERMT2PS(v[2*i+1], hi, b)
			VMOVUPS(a, low, Mem{Base: row})
			VMOVUPS(b, high, Mem{Base: row, Disp: 64})
		}
	}, dx, func(n reg.Register) {
		LEAQ(Mem{Base: dy, Index: n, Scale: 4}, dy)
		LEAQ(Mem{Base: choice, Index: n, Scale: 2}, choice)
	})
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}
