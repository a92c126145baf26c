package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weightBytes is what a weight takes: it is stored once for every lane, since on
// Zen 4 broadcasts compete with sums.
const weightBytes = 64

// combines emits the weighted sums of some inputs: one, two or four sums at a
// time, so that what is loaded serves them all. Four sums of vecs vectors are as
// many as there are registers for.
func combines(s isa) {
	vecs := s.lanes / 4
	for _, c := range []combination{{s, 1, 8}, {s, 2, 2 * vecs}, {s, 4, vecs}} {
		c.emit()
	}
}

// combination is a kernel for so many sums of vecs vectors.
type combination struct {
	isa
	sums, vecs int
}

// combineArgs are the registers of a kernel. The index i counts elements of the
// inputs; the addresses of the outputs are moved so that it fits them, too.
type combineArgs struct {
	dst             []reg.GPVirtual
	end, i          reg.GPVirtual  // behind the last input; the index
	from, to, ahead reg.GPVirtual  // what is copied besides
	copies          reg.GPVirtual  // vectors left to copy
	negative        reg.VecVirtual // -0, to which adding changes nothing
}

func (c combination) emit() {
	name := fmt.Sprintf("combine%d%s", c.sums, c.name)
	sig := "dst *[]float32, at int, w *float32, xs *[]float32, count, off, n int, stream bool"
	doc := []string{
		fmt.Sprintf("%s sets n elements from at on of dst[s], for s < %d, to the sum over i < count, which is", name, c.sums),
		fmt.Sprintf("not 0, of w[16*(%d*i+s)]*xs[i] from off on; each w stands there 16 times. With stream the", c.sums),
		"caches are bypassed, and the first elements must be aligned at 64 bytes.",
	}
	if c.copies() {
		sig += ", from, to *float32, ahead, copies int"
		doc = append(doc, fmt.Sprintf("Meanwhile up to copies groups of %d elements are copied: one an input and group of vectors.", c.lanes))
	}
	TEXT(name, NOSPLIT, "func("+sig+")")
	Doc(doc...)
	Pragma("noescape")
	a := c.args()
	n := load("n")
	c.sweep(a.i, n, c.vecs, func() { c.group(a, "many", c.vecs, nil) }, func(m *mask) {
		if m == nil {
			c.group(a, "single", 1, nil)
		} else {
			c.group(a, "rest", 1, m)
		}
	})
	VZEROUPPER()
	RET()
}

// copies tells whether the kernel copies besides: only where there is time to.
func (c combination) copies() bool { return c.sums == 4 }

func (c combination) args() combineArgs {
	a := combineArgs{end: load("count"), i: load("off")}
	shift, heads := load("at"), load("dst")
	SUBQ(a.i, shift)
	for s := range c.sums {
		d := GP64()
		MOVQ(Mem{Base: heads, Disp: 24 * s}, d)
		LEAQ(Mem{Base: d, Index: shift, Scale: 4}, d)
		a.dst = append(a.dst, d)
	}
	xs := load("xs")
	LEAQ(Mem{Base: a.end, Index: a.end, Scale: 2}, a.end) // slices are 24 bytes apart
	LEAQ(Mem{Base: xs, Index: a.end, Scale: 8}, a.end)
	if c.copies() {
		a.from, a.to, a.ahead, a.copies = load("from"), load("to"), load("ahead"), load("copies")
	}
	bits, x := GP32(), XMM()
	MOVL(U32(1<<31), bits)
	VMOVD(bits, x)
	a.negative = c.vec()
	VBROADCASTSS(x, a.negative)
	return a
}

// group emits one group of vectors of each sum.
func (c combination) group(a combineArgs, label string, vecs int, m *mask) {
	acc := make([][]reg.VecVirtual, c.sums)
	for s := range acc {
		acc[s] = make([]reg.VecVirtual, vecs)
		for v := range acc[s] {
			acc[s][v] = c.vec()
			VMOVAPS(a.negative, acc[s][v])
		}
	}
	x, w := load("xs"), load("w")
	Label(label + "inputs")
	if c.copies() && vecs > 1 {
		c.copyOne(a, label)
	}
	c.input(a, acc, x, w, m)
	ADDQ(Imm(24), x)
	ADDQ(U32(weightBytes*c.sums), w)
	CMPQ(x, a.end)
	JNE(LabelRef(label + "inputs"))
	if m != nil {
		c.storeAll(acc, a, func(v reg.VecVirtual, at Mem) { c.store(v, at, m) })
		return
	}
	CMPB(addr("stream"), Imm(0))
	JNE(LabelRef(label + "stream"))
	c.storeAll(acc, a, func(v reg.VecVirtual, at Mem) { VMOVUPS(v, at) })
	JMP(LabelRef(label + "end"))
	Label(label + "stream")
	c.storeAll(acc, a, func(v reg.VecVirtual, at Mem) { VMOVNTPS(v, at) })
	Label(label + "end")
}

// copyOne copies a vector if some are left.
func (c combination) copyOne(a combineArgs, label string) {
	TESTQ(a.copies, a.copies)
	JZ(LabelRef(label + "copied"))
	v := c.vec()
	PREFETCHT0(Mem{Base: a.from, Index: a.ahead, Scale: 1})
	VMOVUPS(Mem{Base: a.from}, v)
	VMOVUPS(v, Mem{Base: a.to})
	ADDQ(Imm(uint64(c.bytes())), a.from)
	ADDQ(Imm(uint64(c.bytes())), a.to)
	DECQ(a.copies)
	Label(label + "copied")
}

// input adds what one input contributes.
func (c combination) input(a combineArgs, acc [][]reg.VecVirtual, x, w reg.GPVirtual, m *mask) {
	from := GP64()
	MOVQ(Mem{Base: x}, from)
	in := make([]Op, len(acc[0]))
	for v := range in {
		at := Mem{Base: from, Index: a.i, Scale: 4, Disp: v * c.bytes()}
		if c.sums == 1 && m == nil {
			in[v] = at
			continue
		}
		y := c.vec()
		c.load(at, y, m)
		in[v] = y
	}
	for s := range acc {
		weight := c.vec()
		VMOVUPS(Mem{Base: w, Disp: weightBytes * s}, weight)
		for v := 0; v < len(in); v += inRow {
			c.multiplyAdd(weight, in[v:min(v+inRow, len(in))], acc[s][v:])
		}
	}
}

// inRow is how many products are made before they are added: where products and
// sums take turns one by one, Zen 4 does three quarters as many. AVX2 has registers
// for no more than two (avo would go on to those of AVX-512).
const inRow = 2

func (c combination) multiplyAdd(w reg.VecVirtual, in []Op, acc []reg.VecVirtual) {
	products := make([]reg.VecVirtual, len(in))
	for v, x := range in {
		products[v] = c.vec()
		VMULPS(x, w, products[v])
	}
	for v, p := range products {
		VADDPS(p, acc[v], acc[v])
	}
}

func (c combination) storeAll(acc [][]reg.VecVirtual, a combineArgs, store func(v reg.VecVirtual, at Mem)) {
	for s, sum := range acc {
		for v, x := range sum {
			store(x, Mem{Base: a.dst[s], Index: a.i, Scale: 4, Disp: v * c.bytes()})
		}
	}
}

// storeFence emits what orders stores that bypassed the caches before later ones.
func storeFence() {
	TEXT("storeFence", NOSPLIT, "func()")
	Doc("storeFence orders stores that bypassed the caches before later ones.")
	SFENCE()
	RET()
}
