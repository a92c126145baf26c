// Command fermat writes the assembly of the products modulo 65537.
//
// An element is two bytes. Of the left factor both are unsigned, of the right
// one, less 0x8080, signed: what VPDPBUSD multiplies, four products a lane, and
// adds up in 32 bits without any rounding. Since 2^16 = -1,
//
//	(x + 256 y)(u + 256 v) = (x u - y v) + 256 (x v + y u)
//
// so a tile has two sums for each element. The negative product is had as
// (255-y) v, for 255-y is the complement of y, less 255 v, which is summed when
// the right factor is packed.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	height    = 4 // rows of a tile
	vectors   = 3 // of 16 columns
	width     = 16 * vectors
	leftStep  = 2 * 4 * height // bytes of a step, 4 elements of the inner dimension
	rightStep = 2 * 4 * width  // likewise
	header    = 24             // bytes of a slice header
	prime     = 65537
)

func main() {
	ConstraintExpr("amd64,!noasm")
	packLeft()
	packRight()
	tile()
	Generate()
}

// dot4 emits VPDPBUSD, which avo does not know: to each lane of acc are added
// the products of its four bytes.
func dot4(signed, unsigned, acc reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode:   "VPDPBUSD",
		Operands: []Op{signed, unsigned, acc},
		Inputs:   []Op{signed, unsigned, acc},
		Outputs:  []Op{acc},
		ISA:      []string{"AVX512_VNNI"},
	})
}

func load(param string) reg.GPVirtual { return Load(Param(param), GP64()).(reg.GPVirtual) }

func zero(v reg.VecVirtual) { VPXORD(v, v, v) }

// lanesMask returns a mask of the lowest n bits.
func lanesMask(n reg.GPVirtual) reg.GPVirtual {
	bits := GP64()
	MOVQ(I32(-1), bits)
	BZHIQ(n, bits, bits)
	return bits
}

// everyLane fills a vector with a constant.
func everyLane(v uint32, to reg.VecVirtual) {
	r := GP32()
	MOVL(U32(v), r)
	VPBROADCASTD(r, to)
}

// packLeft emits the packing of a tile's rows of the left factor.
func packLeft() {
	TEXT("packFermatLeft", NOSPLIT, "func(dst *uint8, rows *[]uint16, off, k int, sums *int32)")
	Doc("packFermatLeft writes elements off .. off+k-1 of 4 rows, k > 0: for each step of 4 elements, beginning at the end",
		"with zeros up to a multiple of 16, the low bytes row by row, then the high ones. It sets sums to those of the low",
		"bytes of each row and then of the high ones.")
	Pragma("noescape")
	dst, rows, off, k, sums := load("dst"), load("rows"), load("off"), load("k"), load("sums")
	var from [height]reg.GPVirtual
	for i := range from {
		from[i] = GP64()
		MOVQ(Mem{Base: rows, Disp: header * i}, from[i])
		LEAQ(Mem{Base: from[i], Index: off, Scale: 2}, from[i])
	}
	ones := XMM()
	b := GP32()
	MOVL(U32(0x01010101), b)
	VPBROADCASTD(b, ones)
	var sum [2]reg.VecVirtual
	for h := range sum {
		sum[h] = XMM()
		VPXOR(sum[h], sum[h], sum[h])
	}
	at, sixteen := GP64(), GP64()
	XORQ(at, at)
	MOVQ(U32(16), sixteen)
	Label("loop")
	left := GP64()
	MOVQ(k, left)
	CMPQ(left, Imm(16))
	CMOVQGT(sixteen, left)
	mask := K()
	KMOVW(lanesMask(left).As32(), mask)
	var half [2][height]reg.VecVirtual
	for i := range from {
		w := YMM()
		VMOVDQU16_Z(Mem{Base: from[i], Index: at, Scale: 2}, mask, w)
		half[0][i], half[1][i] = XMM(), XMM()
		VPMOVWB(w, half[0][i])
		VPSRLW(Imm(8), w, w)
		VPMOVWB(w, half[1][i])
	}
	for h, r := range half {
		for s, v := range transpose4(r) {
			dot4(ones, v, sum[h])
			VMOVDQU(v, Mem{Base: dst, Disp: s*leftStep + h*leftStep/2})
		}
	}
	ADDQ(Imm(4*leftStep), dst)
	ADDQ(Imm(16), at)
	SUBQ(Imm(16), k)
	JG(LabelRef("loop"))
	for h := range sum {
		VMOVDQU(sum[h], Mem{Base: sums, Disp: 16 * h})
	}
	VZEROUPPER()
	RET()
}

// transpose4 transposes a matrix of 4 x 4 lanes.
func transpose4(r [4]reg.VecVirtual) (out [4]reg.VecVirtual) {
	var t [4]reg.VecVirtual
	for i := range t {
		t[i], out[i] = XMM(), XMM()
	}
	VPUNPCKLDQ(r[1], r[0], t[0])
	VPUNPCKLDQ(r[3], r[2], t[1])
	VPUNPCKHDQ(r[1], r[0], t[2])
	VPUNPCKHDQ(r[3], r[2], t[3])
	VPUNPCKLQDQ(t[1], t[0], out[0])
	VPUNPCKHQDQ(t[1], t[0], out[1])
	VPUNPCKLQDQ(t[3], t[2], out[2])
	VPUNPCKHQDQ(t[3], t[2], out[3])
	return out
}

// packRight emits the packing of a tile's columns of the right factor.
func packRight() {
	TEXT("packFermatRight", NOSPLIT, "func(dst *uint8, rows *[]uint16, steps, off, width int, sums *int32)")
	Doc(fmt.Sprintf("packFermatRight writes columns off .. off+width-1 of 4*steps rows, width <= %d, steps > 0, less 0x8080: for each", width),
		fmt.Sprintf("4 rows, the low bytes of %d columns and then the high ones, 4 of a column side by side. Missing columns count as zeros.", width),
		"It sets sums to those of the high bytes of each column.")
	Pragma("noescape")
	dst, rows, steps, off, cols, sums := load("dst"), load("rows"), load("steps"), load("off"), load("width"), load("sums")
	masks := columnMasks(cols)
	blend := K()
	pick := GP32()
	MOVL(U32(0xaaaaaaaa), pick)
	KMOVD(pick, blend)
	signs, order, ones := ZMM(), ZMM(), ZMM()
	everyLane(0x80808080, signs)
	everyLane(0x01010101, ones)
	VBROADCASTI32X4(byteOrder(), order)
	var sum [vectors]reg.VecVirtual
	for v := range sum {
		sum[v] = ZMM()
		zero(sum[v])
	}
	SHLQ(Imm(1), off)
	Label("loop")
	var from [4]reg.GPVirtual
	for i := range from {
		from[i] = GP64()
		MOVQ(Mem{Base: rows, Disp: header * i}, from[i])
		ADDQ(off, from[i])
	}
	for v := range sum {
		var pair [2]reg.VecVirtual
		for p := range pair {
			even := ZMM()
			pair[p] = ZMM()
			VPMOVZXWD_Z(Mem{Base: from[2*p], Disp: 32 * v}, masks[v], even)
			VPMOVZXWD_Z(Mem{Base: from[2*p+1], Disp: 32 * v}, masks[v], pair[p])
			VPSLLD(Imm(16), pair[p], pair[p])
			VPORD(even, pair[p], pair[p])
			VPSHUFB(order, pair[p], pair[p]) // low, low, high, high byte
			VPXORD(signs, pair[p], pair[p])
		}
		low, high := ZMM(), ZMM()
		VPSLLD(Imm(16), pair[1], low)
		VPBLENDMW(low, pair[0], blend, low)
		VPSRLD(Imm(16), pair[0], high)
		VPBLENDMW(pair[1], high, blend, high)
		dot4(high, ones, sum[v])
		VMOVDQU32(low, Mem{Base: dst, Disp: 64 * v})
		VMOVDQU32(high, Mem{Base: dst, Disp: 64 * (vectors + v)})
	}
	ADDQ(Imm(4*header), rows)
	ADDQ(I32(rightStep), dst)
	DECQ(steps)
	JNZ(LabelRef("loop"))
	for v := range sum {
		VMOVDQU32(sum[v], Mem{Base: sums, Disp: 64 * v})
	}
	VZEROUPPER()
	RET()
}

// byteOrder is the shuffle that puts the even bytes of a lane before the odd ones.
func byteOrder() Mem {
	m := GLOBL("fermatBytes", 8|16) // RODATA|NOPTR
	for i := range 4 {
		base := uint32(4 * i)
		DATA(4*i, U32(base|(base+2)<<8|(base+1)<<16|(base+3)<<24))
	}
	return m
}

// columnMasks returns the masks of a tile's vectors that has so many columns.
func columnMasks(cols reg.GPVirtual) (masks [vectors]reg.OpmaskVirtual) {
	bits := lanesMask(cols)
	for v := range masks {
		masks[v] = K()
		KMOVW(bits.As32(), masks[v])
		SHRQ(Imm(16), bits)
	}
	return masks
}

// tile emits the product of a tile.
func tile() {
	TEXT("fermatTile", NOSPLIT, "func(steps int, a, b *uint8, rows, cols *int32, c *[4]*uint16, width int, carry *uint16) uint32")
	Doc("fermatTile multiplies packed rows and columns, steps > 0, adding rows[i]+cols[j] to each sum, and writes width columns",
		"of the four rows of c: elements modulo 65537, 65535 for 65536, of which carry has the bits, 16 columns each, row by row.",
		"It returns 0 if carry has none.")
	Pragma("noescape")
	steps, a, b := load("steps"), load("a"), load("b")
	var ordinary, mixed [height][vectors]reg.VecVirtual // x u - y v, x v + y u
	rows, cols := load("rows"), load("cols")
	for i := range height {
		for v := range vectors {
			ordinary[i][v], mixed[i][v] = ZMM(), ZMM()
			VPBROADCASTD(Mem{Base: rows, Disp: 4 * i}, ordinary[i][v])
			VPADDD(Mem{Base: cols, Disp: 64 * v}, ordinary[i][v], ordinary[i][v])
			zero(mixed[i][v])
		}
	}
	Label("loop")
	var low, high [vectors]reg.VecVirtual
	for v := range vectors {
		low[v], high[v] = ZMM(), ZMM()
		VMOVDQU32(Mem{Base: b, Disp: 64 * v}, low[v])
		VMOVDQU32(Mem{Base: b, Disp: 64 * (vectors + v)}, high[v])
	}
	for i := range height {
		x, y := ZMM(), ZMM()
		VPBROADCASTD(Mem{Base: a, Disp: 4 * i}, x)
		VPBROADCASTD(Mem{Base: a, Disp: 4 * (height + i)}, y)
		for v := range vectors {
			dot4(low[v], x, ordinary[i][v])
		}
		for v := range vectors {
			dot4(high[v], x, mixed[i][v])
		}
		for v := range vectors {
			dot4(low[v], y, mixed[i][v])
		}
		VPTERNLOGD(Imm(0x55), y, y, y) // complement
		for v := range vectors {
			dot4(high[v], y, ordinary[i][v])
		}
	}
	ADDQ(Imm(leftStep), a)
	ADDQ(I32(rightStep), b)
	DECQ(steps)
	JNZ(LabelRef("loop"))
	finish(ordinary, mixed)
}

// finish reduces the sums and stores them.
func finish(ordinary, mixed [height][vectors]reg.VecVirtual) {
	r := &reducer{low: ZMM(), prime: ZMM(), high: ZMM()}
	everyLane(0xffff, r.low)
	everyLane(prime, r.prime)
	c, carry, masks := load("c"), load("carry"), columnMasks(load("width"))
	any := GP32()
	XORL(any, any)
	everyLane(prime-1, r.high)
	for i := range height {
		row := GP64()
		MOVQ(Mem{Base: c, Disp: 8 * i}, row)
		for v := range vectors {
			x := r.combine(ordinary[i][v], mixed[i][v])
			over, bits := K(), GP32()
			VPCMPEQD(r.high, x, masks[v], over)
			KMOVW(over, Mem{Base: carry, Disp: 2 * (i*vectors + v)})
			KMOVW(over, bits)
			ORL(bits, any)
			VPMOVUSDW(x, masks[v], Mem{Base: row, Disp: 32 * v})
		}
	}
	Store(any, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

type reducer struct{ low, prime, high reg.VecVirtual }

// fold sets x to a value of smaller size modulo 65537: its lower 16 bits less
// the upper ones, which are signed.
func (r *reducer) fold(x reg.VecVirtual) {
	upper := ZMM()
	VPSRAD(Imm(16), x, upper)
	VPANDD(r.low, x, x)
	VPSUBD(upper, x, x)
}

// combine returns x + 256 y modulo 65537, from 0 to 65536.
func (r *reducer) combine(x, y reg.VecVirtual) reg.VecVirtual {
	r.fold(x) // -2^15 < x < 2^17
	r.fold(y)
	VPSLLD(Imm(8), y, y)
	VPADDD(y, x, x)
	r.fold(x) // -1024 < x < 2^16 + 256
	other := ZMM()
	VPADDD(r.prime, x, other)
	VPMINUD(other, x, x) // a negative number is a large one
	VPSUBD(r.prime, x, other)
	VPMINUD(other, x, x)
	return x
}
