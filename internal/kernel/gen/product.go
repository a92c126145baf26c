package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// products emits the micro-kernels of the matrix product.
func products() {
	for _, rows := range []int{1, 2, 4, 8} {
		for vecs := 1; vecs <= 3; vecs++ {
			product(avx512, rows, vecs, rows == 8)
		}
	}
	for _, rows := range []int{1, 2, 4, 6} {
		for vecs := 1; vecs <= 2; vecs++ {
			product(avx2, rows, vecs, rows == 6)
		}
	}
}

// product emits one micro-kernel: rows x vecs accumulators stay in registers
// while the inner dimension runs. With keeps, it can write the panel of B that
// it reads to memory, so that packing costs no pass of its own.
func product(s isa, rows, vecs int, keeps bool) {
	g := &micro{isa: s, rows: rows, vecs: vecs, keeps: keeps}
	name := fmt.Sprintf("product%dx%d%s", rows, vecs*s.lanes, s.name)
	TEXT(name, NOSPLIT, "func(k int, a *float32, ars, acs int, b *float32, bs int, keep, next, beside *float32, ns int, c *float32, ldc, rows, cols int, alpha, beta float32)")
	Doc(fmt.Sprintf("%s multiplies a tile of up to %d x %d, see tile.", name, rows, vecs*s.lanes))
	Pragma("noescape")
	g.begin()
	if keeps {
		keep := load("keep")
		TESTQ(keep, keep)
		JZ(LabelRef("read"))
		TESTQ(g.next, g.next)
		CMOVQEQ(g.b, g.next) // asks for what is there already
		g.loop("keep", 2, keep, true)
		JMP(LabelRef("write"))
		Label("read")
		TESTQ(g.next, g.next)
		JZ(LabelRef("plain"))
		g.askBeside()
		g.loop("ask", 4, nil, true)
		JMP(LabelRef("write"))
		Label("plain")
	}
	g.loop("read", 4, nil, false)
	Label("write")
	g.finish()
}

type micro struct {
	isa
	rows, vecs int
	keeps      bool // it can keep B, and ask for what comes next
	acc        [][]reg.VecVirtual
	k          reg.GPVirtual
	a          [2]reg.GPVirtual // rows 0-3 and 4-7
	ars, ars3  reg.GPVirtual
	acs, b, bs reg.GPVirtual
	ahead      reg.GPVirtual // b some steps ahead
	next, ns   reg.GPVirtual // what is asked for while the loop runs
}

func (g *micro) begin() {
	g.prefetchC()
	g.k = load("k")
	g.a[0] = load("a")
	g.ars, g.acs = loadStride("ars"), loadStride("acs")
	if g.rows > 3 {
		g.ars3 = GP64()
		LEAQ(Mem{Base: g.ars, Index: g.ars, Scale: 2}, g.ars3)
	}
	if g.rows > 4 {
		g.a[1] = GP64()
		LEAQ(Mem{Base: g.a[0], Index: g.ars, Scale: 4}, g.a[1])
	}
	g.b, g.bs = load("b"), loadStride("bs")
	if g.vecs > 1 { // the narrowest kernels are bound by their loads
		g.ahead = GP64()
		LEAQ(Mem{Base: g.b, Index: g.bs, Scale: 8}, g.ahead)
	}
	if g.keeps {
		g.next, g.ns = load("next"), loadStride("ns")
	}
	for range g.rows {
		row := make([]reg.VecVirtual, g.vecs)
		for j := range row {
			row[j] = g.vec()
			g.zero(row[j])
		}
		g.acc = append(g.acc, row)
	}
}

// prefetchC asks for the tile of C while the products run.
func (g *micro) prefetchC() {
	c, ldc := load("c"), loadStride("ldc")
	for i := range g.rows {
		for at := 0; at < g.vecs*g.bytes(); at += 64 {
			PREFETCHT0(Mem{Base: c, Disp: at})
		}
		if i < g.rows-1 {
			ADDQ(ldc, c)
		}
	}
}

func (g *micro) aAt(i int) Mem {
	switch m := (Mem{Base: g.a[i/4]}); i % 4 {
	case 1:
		return m.Idx(g.ars, 1)
	case 2:
		return m.Idx(g.ars, 2)
	case 3:
		return m.Idx(g.ars3, 1)
	default:
		return m
	}
}

// loop emits the loop over k, unrolled. With asks, it brings a row of what comes
// next nearer for each turn.
func (g *micro) loop(label string, unroll int, keep reg.GPVirtual, asks bool) {
	SUBQ(Imm(uint64(unroll)), g.k)
	JL(LabelRef(label + "rest"))
	Label(label + "loop")
	if asks {
		for at := 0; at < g.vecs*g.bytes(); at += 64 {
			PREFETCHT1(Mem{Base: g.next, Disp: at})
		}
		ADDQ(g.ns, g.next)
	}
	for u := range unroll {
		g.step(keep, u)
	}
	if keep != nil {
		ADDQ(I32(int32(unroll*g.vecs*g.bytes())), keep)
	}
	SUBQ(Imm(uint64(unroll)), g.k)
	JGE(LabelRef(label + "loop"))
	Label(label + "rest")
	ADDQ(Imm(uint64(unroll)), g.k)
	JZ(LabelRef("write"))
	Label(label + "single")
	g.step(keep, 0)
	if keep != nil {
		ADDQ(I32(int32(g.vecs*g.bytes())), keep)
	}
	DECQ(g.k)
	JNZ(LabelRef(label + "single"))
}

// askBeside brings a tile of each of two matrices as near as the tile of C, while the
// first steps run, if there is a second.
func (g *micro) askBeside() {
	beside, rows := load("beside"), GP64()
	TESTQ(beside, beside)
	JZ(LabelRef("ask"))
	MOVQ(U32(uint32(g.rows)), rows)
	Label("beside")
	CMPQ(g.k, Imm(4))
	JL(LabelRef("plain"))
	for at := 0; at < g.vecs*g.bytes(); at += 64 {
		PREFETCHT0(Mem{Base: g.next, Disp: at})
		PREFETCHT0(Mem{Base: beside, Disp: at})
	}
	ADDQ(g.ns, g.next)
	ADDQ(g.ns, beside)
	for u := range 4 {
		g.step(nil, u)
	}
	SUBQ(Imm(4), g.k)
	DECQ(rows)
	JNZ(LabelRef("beside"))
	JMP(LabelRef("plain"))
	Label("ask")
}

func (g *micro) step(keep reg.GPVirtual, u int) {
	bv := make([]reg.VecVirtual, g.vecs)
	for j := range bv {
		bv[j] = g.vec()
		VMOVUPS(Mem{Base: g.b, Disp: j * g.bytes()}, bv[j])
	}
	for at := 0; at < g.vecs*g.bytes() && g.ahead != nil; at += 64 {
		PREFETCHT0(Mem{Base: g.ahead, Disp: at})
		if keep != nil { // B comes from memory
			PREFETCHT1(Mem{Base: g.ahead, Index: g.bs, Scale: 8, Disp: at})
		}
	}
	if keep != nil {
		for j := range bv {
			VMOVUPS(bv[j], Mem{Base: keep, Disp: (u*g.vecs + j) * g.bytes()})
		}
	}
	for i := range g.rows {
		av := g.vec()
		VBROADCASTSS(g.aAt(i), av)
		for j := range bv {
			VFMADD231PS(bv[j], av, g.acc[i][j])
		}
	}
	ADDQ(g.acs, g.a[0])
	if g.rows > 4 {
		ADDQ(g.acs, g.a[1])
	}
	ADDQ(g.bs, g.b)
	if g.ahead != nil {
		ADDQ(g.bs, g.ahead)
	}
}

// finish writes C = alpha*acc + beta*C for the rows and columns asked for.
func (g *micro) finish() {
	c, ldc := load("c"), loadStride("ldc")
	rows, cols := load("rows"), load("cols")
	alpha := g.broadcast("alpha")
	bits := GP32()
	MOVL(addr("beta"), bits)
	SHLL(Imm(1), bits) // drops the sign: -0 is 0
	SUBQ(Imm(uint64((g.vecs-1)*g.lanes)), cols)
	CMPQ(cols, Imm(uint64(g.lanes)))
	JNE(LabelRef("edge"))
	TESTL(bits, bits)
	JNZ(LabelRef("full"))
	g.write("set", c, ldc, rows, alpha, false, nil)
	Label("full")
	g.write("add", c, ldc, rows, alpha, true, nil)
	Label("edge")
	m := g.maskOf(cols)
	TESTL(bits, bits)
	JNZ(LabelRef("edgefull"))
	g.write("edgeset", c, ldc, rows, alpha, false, &m)
	Label("edgefull")
	g.write("edgeadd", c, ldc, rows, alpha, true, &m)
}

// write stores the rows and returns; m masks the last vector of each.
func (g *micro) write(label string, c, ldc, rows reg.GPVirtual, alpha reg.VecVirtual, add bool, m *mask) {
	var beta reg.VecVirtual
	if add {
		beta = g.broadcast("beta")
	}
	for i, row := range g.acc {
		for j, v := range row {
			at := Mem{Base: c, Disp: j * g.bytes()}
			var only *mask
			if j == g.vecs-1 {
				only = m
			}
			VMULPS(alpha, v, v)
			switch {
			case add && only == nil:
				VFMADD231PS(at, beta, v)
			case add:
				old := g.vec()
				g.load(at, old, only)
				VFMADD231PS(old, beta, v)
			}
			g.store(v, at, only)
		}
		if i < g.rows-1 {
			DECQ(rows)
			JZ(LabelRef(label + "done"))
			ADDQ(ldc, c)
		}
	}
	if g.rows > 1 {
		Label(label + "done")
	}
	VZEROUPPER()
	RET()
}
