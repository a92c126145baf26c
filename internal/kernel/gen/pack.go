package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func packs() {
	copyColumn(avx2)
	copyColumn(avx512)
	transpose()
}

// copyColumn emits the copy of a strip one vector wide.
func copyColumn(s isa) {
	TEXT("copyColumn"+s.name, NOSPLIT, "func(dst *float32, ldd int, src *float32, ld, n, rows int)")
	Doc(fmt.Sprintf("copyColumn%s writes %d elements at dst[p*ldd] for each p < rows, rows > 0: n of src[p*ld], 1 <= n <= %d, and zeros.", s.name, s.lanes, s.lanes))
	Pragma("noescape")
	dst, ldd, src, ld, n, rows := load("dst"), loadStride("ldd"), load("src"), loadStride("ld"), load("n"), load("rows")
	loop := func(label string, m *mask) {
		Label(label)
		v := s.vec()
		s.load(Mem{Base: src}, v, m)
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(ld, src)
		ADDQ(ldd, dst)
		DECQ(rows)
		JNZ(LabelRef(label))
		VZEROUPPER()
		RET()
	}
	CMPQ(n, Imm(uint64(s.lanes)))
	JNE(LabelRef("edge"))
	loop("whole", nil)
	Label("edge")
	m := s.maskOf(n)
	loop("part", &m)
}

// transpose emits the transposition of 8 rows, 8 columns at a time. Halves of
// rows i and i+4 are loaded side by side, so that only shuffles inside the
// halves remain.
func transpose() {
	TEXT("transpose8AVX2", NOSPLIT, "func(dst *float32, ldd int, src *float32, ld, n int)")
	Doc("transpose8AVX2 sets dst[p*ldd+i] = src[i*ld+p] for i < 8, p < n; n is a multiple of 8 and not 0.")
	Pragma("noescape")
	dst, ldd, src, ld, n := load("dst"), loadStride("ldd"), load("src"), loadStride("ld"), load("n")
	from, to := rowsOf8(src, ld), rowsOf8(dst, ldd)
	Label("loop")
	for half := range 2 {
		var r, t [4]reg.VecVirtual
		for i := range r {
			r[i] = YMM()
			x := XMM()
			VMOVUPS(from(i).Offset(16*half), x)
			VINSERTF128(Imm(1), from(i+4).Offset(16*half), x.AsY(), r[i])
		}
		for i := 0; i < 4; i += 2 {
			t[i], t[i+1] = YMM(), YMM()
			VUNPCKLPS(r[i+1], r[i], t[i])
			VUNPCKHPS(r[i+1], r[i], t[i+1])
		}
		for i := range 4 {
			o := YMM()
			pick := uint64(0x44) // the low pairs of both
			if i%2 == 1 {
				pick = 0xEE
			}
			VSHUFPS(Imm(pick), t[2+i/2], t[i/2], o)
			VMOVUPS(o, to(4*half+i))
		}
	}
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), from(4).Base)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 8}, dst)
	LEAQ(Mem{Base: to(4).Base, Index: ldd, Scale: 8}, to(4).Base)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// rowsOf8 returns the addresses of 8 rows a stride apart.
func rowsOf8(base, stride reg.GPVirtual) func(i int) Mem {
	base4, stride3 := GP64(), GP64()
	LEAQ(Mem{Base: base, Index: stride, Scale: 4}, base4)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	return func(i int) Mem {
		m := Mem{Base: base}
		if i >= 4 {
			m.Base = base4
		}
		switch i % 4 {
		case 1:
			return m.Idx(stride, 1)
		case 2:
			return m.Idx(stride, 2)
		case 3:
			return m.Idx(stride3, 1)
		}
		return m
	}
}
