package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// planar emits the kernels of convolutions that are computed plane by plane.
func planar(s isa) {
	tapSums(s)
	tapDots(s)
	splitPairs(s)
	joinPairs(s)
}

// rowsOf returns the addresses of up to 4 rows, ld apart, from at on.
func rowsOf(at, ld, ld3 reg.Register) [4]Mem {
	return [4]Mem{{Base: at}, {Base: at, Index: ld, Scale: 1}, {Base: at, Index: ld, Scale: 2}, {Base: at, Index: ld3, Scale: 1}}
}

// tapSums emits the sum over some taps of a plane, of four rows together while
// there are four.
func tapSums(s isa) {
	TEXT("tapSums"+s.name, NOSPLIT, "func(y *float32, ldy int, x *float32, ldx int, w *float32, off *int, taps, rows, n int, bias, floor float32)")
	Doc(fmt.Sprintf("tapSums%s sets y = max(floor, bias + the sum over k < taps of w[k] * x[off[k]:]), over rows of n columns. It reads x in whole vectors.", s.name))
	Pragma("noescape")
	y, ldy, x, ldx := load("y"), loadStride("ldy"), load("x"), loadStride("ldx")
	w, off, taps, rows := load("w"), load("off"), load("taps"), load("rows")
	bias, floor := s.broadcast("bias"), s.broadcast("floor")
	ldx3, tail := GP64(), load("n")
	LEAQ(Mem{Base: ldx, Index: ldx, Scale: 2}, ldx3)
	ANDQ(Imm(uint64(s.lanes-1)), tail)
	rest := s.maskOf(tail) // not used if the tail is empty
	// columns emits the loop over the columns of some rows.
	columns := func(rows int) {
		label := func(name string) string { return fmt.Sprintf("%s%d", name, rows) }
		from, to, left := GP64(), GP64(), load("n")
		MOVQ(x, from)
		MOVQ(y, to)
		Label(label("columns"))
		acc := make([]reg.VecVirtual, rows)
		for r := range acc {
			acc[r] = s.vec()
			VMOVAPS(bias, acc[r])
		}
		k := GP64()
		XORQ(k, k)
		Label(label("tap"))
		at, weight := GP64(), s.vec()
		MOVQ(Mem{Base: off, Index: k, Scale: 8}, at)
		LEAQ(Mem{Base: from, Index: at, Scale: 4}, at)
		VBROADCASTSS(Mem{Base: w, Index: k, Scale: 4}, weight)
		in := rowsOf(at, ldx, ldx3)
		for r, a := range acc {
			t := s.vec()
			VMULPS(in[r], weight, t)
			VADDPS(t, a, a)
		}
		INCQ(k)
		CMPQ(k, taps)
		JL(LabelRef(label("tap")))
		store := func(m *mask) {
			out := GP64()
			MOVQ(to, out)
			for r, a := range acc {
				VMAXPS(a, floor, a) // the second source wins against NaN: NaN stays NaN
				s.store(a, Mem{Base: out}, m)
				if r < rows-1 {
					ADDQ(ldy, out)
				}
			}
		}
		CMPQ(left, Imm(uint64(s.lanes)))
		JL(LabelRef(label("partial")))
		store(nil)
		ADDQ(Imm(uint64(s.bytes())), from)
		ADDQ(Imm(uint64(s.bytes())), to)
		SUBQ(Imm(uint64(s.lanes)), left)
		JNZ(LabelRef(label("columns")))
		JMP(LabelRef(label("done")))
		Label(label("partial"))
		store(&rest)
		Label(label("done"))
	}
	SUBQ(Imm(4), rows)
	JL(LabelRef("few"))
	Label("four")
	columns(4)
	LEAQ(Mem{Base: x, Index: ldx, Scale: 4}, x)
	LEAQ(Mem{Base: y, Index: ldy, Scale: 4}, y)
	SUBQ(Imm(4), rows)
	JGE(LabelRef("four"))
	Label("few")
	ADDQ(Imm(4), rows)
	JZ(LabelRef("end"))
	Label("one")
	columns(1)
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("one"))
	Label("end")
	VZEROUPPER()
	RET()
}

// The products of a plane with another at tapBlock offsets are summed together,
// each in tapLanes lanes.
const (
	tapBlock = 5
	tapLanes = 16
)

// tapDots emits the sums of products for some offsets.
func tapDots(s isa) {
	TEXT("tapDots"+s.name, NOSPLIT, "func(m, y *float32, ldy int, x *float32, ldx int, off *int, rows, n int)")
	Doc(fmt.Sprintf("tapDots%s adds the products of y and x[off[k]:] to the %d lanes at m[k], k < %d, over rows of n columns: lane l takes the columns l, l+%d, ... It reads x in whole vectors.", s.name, tapLanes, tapBlock, tapLanes))
	Pragma("noescape")
	y, ldy, x, ldx := load("y"), loadStride("ldy"), load("x"), loadStride("ldx")
	off, rows := load("off"), load("rows")
	vecs := tapLanes / s.lanes
	var at [tapBlock]reg.GPVirtual
	for k := range at {
		at[k] = GP64()
		MOVQ(Mem{Base: off, Disp: 8 * k}, at[k])
	}
	var acc [tapBlock][]reg.VecVirtual
	m := load("m")
	lanes := func(k, u int) Mem { return Mem{Base: m, Disp: (k*vecs + u) * s.bytes()} }
	for k := range acc {
		for u := range vecs {
			acc[k] = append(acc[k], s.vec())
			VMOVUPS(lanes(k, u), acc[k][u])
		}
	}
	tail := load("n")
	ANDQ(Imm(uint64(s.lanes-1)), tail)
	rest := s.maskOf(tail) // not used if the tail is empty
	i, from, left := GP64(), GP64(), GP64()
	group := func(u int, m *mask) {
		v := s.vec()
		s.load(Mem{Base: y, Index: i, Scale: 4}, v, m)
		LEAQ(Mem{Base: x, Index: i, Scale: 4}, from)
		for k := range acc {
			t := s.vec()
			VMULPS(Mem{Base: from, Index: at[k], Scale: 4}, v, t)
			s.accumulate(acc[k][u], t, m)
		}
	}
	Label("row")
	XORQ(i, i)
	Load(Param("n"), left)
	Label("columns")
	for u := range vecs {
		CMPQ(left, Imm(uint64(s.lanes)))
		JL(LabelRef(fmt.Sprintf("partial%d", u)))
		group(u, nil)
		ADDQ(Imm(uint64(s.lanes)), i)
		SUBQ(Imm(uint64(s.lanes)), left)
		JZ(LabelRef("next"))
	}
	JMP(LabelRef("columns"))
	for u := range vecs {
		Label(fmt.Sprintf("partial%d", u))
		group(u, &rest)
		if u < vecs-1 {
			JMP(LabelRef("next"))
		}
	}
	Label("next")
	ADDQ(ldy, y)
	ADDQ(ldx, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	m = load("m")
	for k := range acc {
		for u := range vecs {
			VMOVUPS(acc[k][u], lanes(k, u))
		}
	}
	VZEROUPPER()
	RET()
}

// pairMasks returns masks for a row's last n < 2*lanes entries: of both vectors
// of pairs, and of the vectors of the even and of the odd ones.
func (s isa) pairMasks(n reg.GPVirtual) (pairs [2]mask, apart [2]mask) {
	t := GP64()
	MOVQ(n, t)
	CMPQ(t, Imm(uint64(s.lanes)))
	JLE(LabelRef("onevector"))
	MOVQ(U32(uint32(s.lanes)), t)
	Label("onevector")
	pairs[0] = s.maskOf(t)
	NEGQ(t)
	ADDQ(n, t)
	pairs[1] = s.maskOf(t)
	MOVQ(n, t)
	INCQ(t)
	SHRQ(Imm(1), t)
	apart[0] = s.maskOf(t)
	MOVQ(n, t)
	SHRQ(Imm(1), t)
	apart[1] = s.maskOf(t)
	return pairs, apart
}

// The orders in which AVX-512 takes entries of two vectors together, 16 each.
var (
	evenOrder, oddOrder [16]uint32
	lowOrder, highOrder [16]uint32
)

func init() {
	for i := range uint32(16) {
		evenOrder[i], oddOrder[i] = 2*i, 2*i+1
		lowOrder[i], highOrder[i] = i/2+16*(i%2), 8+i/2+16*(i%2)
	}
}

// order returns a register with the entries of a table.
func order(name string, entries [16]uint32) reg.VecVirtual {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i, v := range entries {
		DATA(4*i, U32(v))
	}
	r := ZMM()
	VMOVUPS(m, r)
	return r
}

// splitter prepares the function that sets v to the even and the odd entries of v.
func (s isa) splitter() func(v *[2]reg.VecVirtual) {
	if s.lanes == 16 {
		even, odd := order("evenOrder", evenOrder), order("oddOrder", oddOrder)
		return func(v *[2]reg.VecVirtual) {
			first := s.vec()
			VMOVAPS(v[0], first)
			VPERMT2PS(v[1], even, first)
			VPERMT2PS(v[1], odd, v[0])
			v[0], v[1] = first, v[0]
		}
	}
	return func(v *[2]reg.VecVirtual) {
		even, odd := s.vec(), s.vec()
		VSHUFPS(Imm(0x88), v[1], v[0], even)
		VSHUFPS(Imm(0xdd), v[1], v[0], odd)
		VPERMPD(Imm(0xd8), even, even)
		VPERMPD(Imm(0xd8), odd, odd)
		v[0], v[1] = even, odd
	}
}

// joiner prepares the function that is the inverse of splitter's.
func (s isa) joiner() func(v *[2]reg.VecVirtual) {
	if s.lanes == 16 {
		low, high := order("lowOrder", lowOrder), order("highOrder", highOrder)
		return func(v *[2]reg.VecVirtual) {
			first := s.vec()
			VMOVAPS(v[0], first)
			VPERMT2PS(v[1], low, first)
			VPERMT2PS(v[1], high, v[0])
			v[0], v[1] = first, v[0]
		}
	}
	return func(v *[2]reg.VecVirtual) {
		low, high := s.vec(), s.vec()
		VUNPCKLPS(v[1], v[0], low)
		VUNPCKHPS(v[1], v[0], high)
		VPERM2F128(Imm(0x31), high, low, v[1])
		VPERM2F128(Imm(0x20), high, low, v[0])
	}
}

// splitPairs emits the copy of rows with their even and odd entries apart.
func splitPairs(s isa) {
	TEXT("splitPairs"+s.name, NOSPLIT, "func(even, odd *float32, ld int, x *float32, ldx, rows, n int)")
	Doc(fmt.Sprintf("splitPairs%s sets even[j] = x[2*j] and odd[j] = x[2*j+1], over rows of n entries of x.", s.name))
	Pragma("noescape")
	pairRows(s, s.splitter(), true, load("x"), loadStride("ldx"), [2]reg.GPVirtual{load("even"), load("odd")}, loadStride("ld"))
}

// joinPairs emits the inverse of splitPairs.
func joinPairs(s isa) {
	TEXT("joinPairs"+s.name, NOSPLIT, "func(x *float32, ldx int, even, odd *float32, ld, rows, n int)")
	Doc(fmt.Sprintf("joinPairs%s sets x[2*j] = even[j] and x[2*j+1] = odd[j], over rows of n entries of x.", s.name))
	Pragma("noescape")
	pairRows(s, s.joiner(), false, load("x"), loadStride("ldx"), [2]reg.GPVirtual{load("even"), load("odd")}, loadStride("ld"))
}

// pairRows emits the loops over rows of pairs at x and of their entries apart.
func pairRows(s isa, move func(v *[2]reg.VecVirtual), split bool, x, ldx reg.GPVirtual, apart [2]reg.GPVirtual, ld reg.GPVirtual) {
	tail, left, i := load("n"), GP64(), GP64()
	ANDQ(Imm(uint64(2*s.lanes-1)), tail)
	pairMasks, apartMasks := s.pairMasks(tail)
	from := GP64()
	group := func(masked bool) {
		var v [2]reg.VecVirtual
		paired := [2]Mem{{Base: from}, {Base: from, Disp: s.bytes()}}
		single := [2]Mem{{Base: apart[0], Index: i, Scale: 4}, {Base: apart[1], Index: i, Scale: 4}}
		in, inMasks, out, outMasks := paired, pairMasks, single, apartMasks
		if !split {
			in, inMasks, out, outMasks = single, apartMasks, paired, pairMasks
		}
		for u := range v {
			v[u] = s.vec()
			var m *mask
			if masked {
				m = &inMasks[u]
			}
			s.load(in[u], v[u], m)
		}
		move(&v)
		for u := range v {
			var m *mask
			if masked {
				m = &outMasks[u]
			}
			s.store(v[u], out[u], m)
		}
	}
	Label("row")
	XORQ(i, i)
	MOVQ(x, from)
	Load(Param("n"), left)
	SUBQ(Imm(uint64(2*s.lanes)), left)
	JL(LabelRef("few"))
	Label("whole")
	group(false)
	ADDQ(Imm(uint64(2*s.bytes())), from)
	ADDQ(Imm(uint64(s.lanes)), i)
	SUBQ(Imm(uint64(2*s.lanes)), left)
	JGE(LabelRef("whole"))
	Label("few")
	TESTQ(tail, tail)
	JZ(LabelRef("next"))
	group(true)
	Label("next")
	ADDQ(ldx, x)
	ADDQ(ld, apart[0])
	ADDQ(ld, apart[1])
	DECQ(addr("rows"))
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
