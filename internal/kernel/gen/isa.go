package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a set of vector instructions: the same kernels are emitted for each.
type isa struct {
	name  string
	lanes int
}

var (
	avx2   = isa{"AVX2", 8}
	avx512 = isa{"AVX512", 16}
)

func (s isa) bytes() int { return 4 * s.lanes }

func (s isa) vec() reg.VecVirtual {
	if s.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

func (s isa) zero(v reg.VecVirtual) {
	if s.lanes == 16 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

func (s isa) broadcast(param string) reg.VecVirtual {
	v := s.vec()
	VBROADCASTSS(addr(param), v)
	return v
}

// mask selects the first elements of a vector.
type mask struct {
	k reg.Register   // AVX-512
	y reg.VecVirtual // AVX2
}

// maskOf returns the mask of the first n lanes, 1 <= n <= lanes.
func (s isa) maskOf(n reg.GPVirtual) mask {
	if s.lanes == 16 {
		bits, k := GP32(), K()
		MOVL(I32(-1), bits)
		BZHIL(n.As32(), bits, bits)
		KMOVW(bits, k)
		return mask{k: k}
	}
	table, y := GP64(), YMM()
	LEAQ(laneMasks(), table)
	NEGQ(n)
	VMOVUPS(Mem{Base: table, Index: n, Scale: 4, Disp: 32}, y)
	NEGQ(n)
	return mask{y: y}
}

// laneMasks is a table of 8 lanes of ones and 8 of zeros.
func laneMasks() Mem {
	if masksTable == nil {
		m := GLOBL("laneMasks", 8|16) // RODATA|NOPTR
		for i := range 16 {
			v := U32(0xffffffff)
			if i >= 8 {
				v = 0
			}
			DATA(4*i, v)
		}
		masksTable = &m
	}
	return *masksTable
}

var masksTable *Mem

// load and store move a vector, or its first lanes only where m is not nil.
func (s isa) load(at Mem, v reg.VecVirtual, m *mask) {
	switch {
	case m == nil:
		VMOVUPS(at, v)
	case s.lanes == 16:
		VMOVUPS_Z(at, m.k, v)
	default:
		VMASKMOVPS(at, m.y, v)
	}
}

func (s isa) store(v reg.VecVirtual, at Mem, m *mask) {
	switch {
	case m == nil:
		VMOVUPS(v, at)
	case s.lanes == 16:
		VMOVUPS(v, m.k, at)
	default:
		VMASKMOVPS(v, m.y, at)
	}
}

func load(param string) reg.GPVirtual {
	return Load(Param(param), GP64()).(reg.GPVirtual)
}

func addr(param string) Mem {
	b, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// loadStride loads a stride given in elements, as bytes.
func loadStride(param string) reg.GPVirtual {
	r := load(param)
	SHLQ(Imm(2), r)
	return r
}
