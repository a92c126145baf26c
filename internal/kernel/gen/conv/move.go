package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanesMask returns a mask of the low n lanes, n <= 16.
func lanesMask(n reg.GPVirtual) reg.OpmaskVirtual {
	bits, k := GP64(), K()
	MOVQ(U32(0xffff), bits)
	BZHIQ(n, bits, bits)
	KMOVW(bits.As32(), k)
	return k
}

// transpose emits the transposition of a strip of up to 16 rows.
func transpose(bias bool) {
	if bias {
		TEXT("transposeBiasAVX512", NOSPLIT, "func(dst *float32, ldd int, src *float32, lds, rows, cols, width int, bias *float32, floor float32)")
		Doc("transposeBiasAVX512 writes max(floor, src[r*lds+c]+bias[c]) to dst[c*ldd+r] for r < width, c < cols; rows from rows to width count as zeros. width <= 16.")
	} else {
		TEXT("transposeAVX512", NOSPLIT, "func(dst *float32, ldd int, src *float32, lds, rows, cols, width int)")
		Doc("transposeAVX512 writes src[r*lds+c] to dst[c*ldd+r] for r < width, c < cols; rows from rows to width count as zeros. width <= 16.")
	}
	Pragma("noescape")
	dst, ldd := Load(Param("dst"), GP64()), Load(Param("ldd"), GP64())
	src, lds := Load(Param("src"), GP64()), Load(Param("lds"), GP64())
	rows, cols := Load(Param("rows"), GP64()), Load(Param("cols"), GP64())
	store := lanesMask(Load(Param("width"), GP64()).(reg.GPVirtual))
	SHLQ(Imm(2), ldd)
	SHLQ(Imm(2), lds)
	var b reg.Register
	floor := reg.VecVirtual(nil)
	if bias {
		b = Load(Param("bias"), GP64())
		floor = ZMM()
		addr, err := Param("floor").Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSS(addr.Addr, floor)
	}

	var r, t [16]reg.VecVirtual
	for i := range r {
		r[i], t[i] = ZMM(), ZMM()
	}
	Label("block")
	n := GP64()
	MOVQ(cols, n)
	CMPQ(n, Imm(16))
	JLE(LabelRef("few"))
	MOVQ(U32(16), n)
	Label("few")
	load := lanesMask(n)
	p := GP64()
	MOVQ(src, p)
	CMPQ(rows, Imm(16))
	JGE(LabelRef("allrows"))
	for i := range r {
		VPXORD(r[i], r[i], r[i])
	}
	for i := range r[:15] {
		CMPQ(rows, Imm(uint64(i)))
		JLE(LabelRef("loaded"))
		VMOVUPS_Z(Mem{Base: p}, load, r[i])
		ADDQ(lds, p)
	}
	JMP(LabelRef("loaded"))
	Label("allrows")
	for i := range r {
		VMOVUPS_Z(Mem{Base: p}, load, r[i])
		if i < 15 {
			ADDQ(lds, p)
		}
	}
	Label("loaded")
	square(&r, &t)
	q := GP64()
	MOVQ(dst, q)
	for i := range r {
		if bias {
			VADDPS_BCST(Mem{Base: b, Disp: 4 * i}, r[i], r[i])
			// the second source wins against NaN: NaN stays NaN
			VMAXPS(r[i], floor, r[i])
		}
		VMOVUPS(r[i], store, Mem{Base: q})
		if i < 15 {
			CMPQ(n, Imm(uint64(i+1)))
			JLE(LabelRef("stored"))
			ADDQ(ldd, q)
		}
	}
	Label("stored")
	ADDQ(ldd, q)
	MOVQ(q, dst)
	ADDQ(Imm(64), src)
	if bias {
		ADDQ(Imm(64), b)
	}
	SUBQ(n, cols)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// square transposes the 16 x 16 matrix in r.
func square(r, t *[16]reg.VecVirtual) {
	for i := 0; i < 16; i += 2 {
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	// rows i..i+3 hold, in each 128-bit lane, columns 0..3 of four rows
	for i := 0; i < 16; i += 4 {
		VUNPCKLPD(t[i+2], t[i], r[i])
		VUNPCKHPD(t[i+2], t[i], r[i+1])
		VUNPCKLPD(t[i+3], t[i+1], r[i+2])
		VUNPCKHPD(t[i+3], t[i+1], r[i+3])
	}
	// then transpose the 4 x 4 matrix of 128-bit lanes, for each column of a lane
	for c := range 4 {
		VSHUFF32X4(Imm(0x88), r[4+c], r[c], t[c])
		VSHUFF32X4(Imm(0xdd), r[4+c], r[c], t[4+c])
		VSHUFF32X4(Imm(0x88), r[12+c], r[8+c], t[8+c])
		VSHUFF32X4(Imm(0xdd), r[12+c], r[8+c], t[12+c])
	}
	for c := range 4 {
		VSHUFF32X4(Imm(0x88), t[8+c], t[c], r[c])
		VSHUFF32X4(Imm(0x88), t[12+c], t[4+c], r[4+c])
		VSHUFF32X4(Imm(0xdd), t[8+c], t[c], r[8+c])
		VSHUFF32X4(Imm(0xdd), t[12+c], t[4+c], r[12+c])
	}
}

// spread emits the copy of planes into planes of a larger pitch.
func spread() {
	TEXT("spreadAVX512", NOSPLIT, "func(dst *float32, pitch, plane int, src *float32, w, rows, planes int)")
	Doc("spreadAVX512 copies planes of rows x w, one after the other, to dst with the given pitch of rows and planes.")
	Pragma("noescape")
	dst, pitch, plane := Load(Param("dst"), GP64()), Load(Param("pitch"), GP64()), Load(Param("plane"), GP64())
	src, w := Load(Param("src"), GP64()), Load(Param("w"), GP64())
	planes := Load(Param("planes"), GP64())
	SHLQ(Imm(2), pitch)
	SHLQ(Imm(2), plane)
	full, tail := GP64(), GP64()
	MOVQ(w, full)
	SHRQ(Imm(4), full)
	MOVQ(w, tail)
	ANDQ(Imm(15), tail)
	mask := lanesMask(tail)
	SHLQ(Imm(2), tail)
	v := ZMM()

	Label("plane")
	row, rows := GP64(), GP64()
	MOVQ(dst, row)
	Load(Param("rows"), rows)
	Label("row")
	at, n := GP64(), GP64()
	MOVQ(row, at)
	MOVQ(full, n)
	TESTQ(n, n)
	JZ(LabelRef("tail"))
	Label("chunk")
	VMOVUPS(Mem{Base: src}, v)
	VMOVUPS(v, Mem{Base: at})
	ADDQ(Imm(64), src)
	ADDQ(Imm(64), at)
	DECQ(n)
	JNZ(LabelRef("chunk"))
	Label("tail")
	VMOVUPS_Z(Mem{Base: src}, mask, v)
	VMOVUPS(v, mask, Mem{Base: at})
	ADDQ(tail, src)
	ADDQ(pitch, row)
	DECQ(rows)
	JNZ(LabelRef("row"))
	ADDQ(plane, dst)
	DECQ(planes)
	JNZ(LabelRef("plane"))
	VZEROUPPER()
	RET()
}

// sumRows emits the sum of the rows of a matrix 16 columns wide.
func sumRows() {
	TEXT("sumRowsAVX512", NOSPLIT, "func(acc, src *float32, ld, rows int)")
	Doc("sumRowsAVX512 adds rows of 16 entries, ld apart, to acc.")
	Pragma("noescape")
	acc, src := Load(Param("acc"), GP64()), Load(Param("src"), GP64())
	ld, rows := Load(Param("ld"), GP64()), Load(Param("rows"), GP64())
	SHLQ(Imm(2), ld)
	s := ZMM()
	VMOVUPS(Mem{Base: acc}, s)
	Label("row")
	VADDPS(Mem{Base: src}, s, s)
	ADDQ(ld, src)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VMOVUPS(s, Mem{Base: acc})
	VZEROUPPER()
	RET()
}
