package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a vector instruction set.
type isa struct {
	name  string
	lanes int
}

var (
	avx512 = isa{"AVX512", 16}
	avx2   = isa{"AVX2", 8}
)

func (i isa) vector() reg.VecVirtual {
	if i.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

func (i isa) zero(v reg.VecVirtual) {
	if i.lanes == 16 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}

// Byte offsets of the fields of the Go struct sweep.
const (
	fieldSteps  = 8 * iota // int
	fieldStride            // int
	fieldAdd               // int
	fieldOff               // *int
	fieldB                 // *float32
	fieldX                 // *float32
	fieldC                 // *float32
	fieldRuns              // *run
	fieldTiles             // int
	fieldNext              // int
	fieldStep              // int
)

// sweep emits the kernel of one register tile, nv vectors wide: see the Go
// struct of the same name for what it computes.
func sweep(i isa, sh shape, nv int) {
	name := fmt.Sprintf("sweep%s_%dx%dx%d", i.name, sh.groups, sh.members, nv*i.lanes)
	TEXT(name, NOSPLIT, "func(s *int)")
	Doc(fmt.Sprintf("%s sweeps tiles of %d runs of %d members, %d columns wide; s is the first field of a sweep.", name, sh.groups, sh.members, nv*i.lanes))
	Pragma("noescape")
	s := Load(Param("s"), GP64())
	field := func(f int) Mem { return Mem{Base: s, Disp: f} }
	bytes := i.lanes * 4

	// multiples of the stride, for the addresses of a run's members
	s1, s3, s5 := GP64(), GP64(), GP64()
	MOVQ(field(fieldStride), s1)
	LEAQ(Mem{Base: s1, Index: s1, Scale: 2}, s3)
	LEAQ(Mem{Base: s1, Index: s1, Scale: 4}, s5)
	member := func(base reg.Register, j int) Mem {
		switch j {
		case 0:
			return Mem{Base: base}
		case 1, 2, 4:
			return Mem{Base: base, Index: s1, Scale: uint8(j)}
		case 3:
			return Mem{Base: base, Index: s3, Scale: 1}
		case 5:
			return Mem{Base: base, Index: s5, Scale: 1}
		case 6:
			return Mem{Base: base, Index: s3, Scale: 2}
		}
		panic("run too long")
	}

	acc := make([][][]reg.VecVirtual, sh.groups)
	for g := range acc {
		acc[g] = make([][]reg.VecVirtual, sh.members)
		for j := range acc[g] {
			for range nv {
				acc[g][j] = append(acc[g][j], i.vector())
			}
		}
	}
	// rows calls f for each accumulator with its place in C.
	rows := func(f func(m Mem, v reg.VecVirtual)) {
		runs, c := GP64(), GP64()
		MOVQ(field(fieldRuns), runs)
		ADDQ(field(fieldNext), runs)
		for g := range acc {
			MOVQ(Mem{Base: runs, Disp: 16*g + 8}, c)
			SHLQ(Imm(uint64(bits.TrailingZeros(uint(nv*bytes)))), c)
			ADDQ(field(fieldC), c)
			for j := range acc[g] {
				for v := range nv {
					f(Mem{Base: c, Disp: v * bytes}, acc[g][j][v])
				}
				if j < len(acc[g])-1 {
					ADDQ(field(fieldStep), c)
				}
			}
		}
	}

	Label("tile")
	base := make([]reg.GPVirtual, sh.groups)
	runs := GP64()
	MOVQ(field(fieldRuns), runs)
	ADDQ(field(fieldNext), runs)
	for g := range base {
		base[g] = GP64()
		MOVQ(Mem{Base: runs, Disp: 16 * g}, base[g])
		ADDQ(field(fieldX), base[g])
	}
	CMPQ(field(fieldAdd), Imm(0))
	JE(LabelRef("zero"))
	rows(func(m Mem, v reg.VecVirtual) { VMOVUPS(m, v) })
	JMP(LabelRef("start"))
	Label("zero")
	rows(func(_ Mem, v reg.VecVirtual) { i.zero(v) })

	Label("start")
	off, b, k := GP64(), GP64(), GP64()
	MOVQ(field(fieldOff), off)
	MOVQ(field(fieldB), b)
	MOVQ(field(fieldSteps), k)
	Label("step")
	shift := GP64()
	MOVQ(Mem{Base: off}, shift)
	bv := make([]reg.VecVirtual, nv)
	for v := range bv {
		bv[v] = i.vector()
		VMOVUPS(Mem{Base: b, Disp: v * bytes}, bv[v])
	}
	for g := range acc {
		at := GP64()
		LEAQ(Mem{Base: base[g], Index: shift, Scale: 1}, at)
		for j := range acc[g] {
			if nv == 1 && i == avx512 {
				VFMADD231PS_BCST(member(at, j), bv[0], acc[g][j][0])
				continue
			}
			x := i.vector()
			VBROADCASTSS(member(at, j), x)
			for v := range bv {
				VFMADD231PS(bv[v], x, acc[g][j][v])
			}
		}
	}
	ADDQ(Imm(8), off)
	ADDQ(I32(int32(nv*bytes)), b)
	DECQ(k)
	JNZ(LabelRef("step"))

	rows(func(m Mem, v reg.VecVirtual) { VMOVUPS(v, m) })
	ADDQ(I32(int32(16*sh.groups)), field(fieldNext))
	DECQ(field(fieldTiles))
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}
