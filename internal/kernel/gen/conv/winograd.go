package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The matrices of Winograd's F(2x2, 3x3); winograd.go of the package names them.
var winogradMatrices = []struct {
	name string
	p    [][]float32
}{
	{"winogradInput", [][]float32{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}},
	{"winogradOutput", [][]float32{{1, 1, 1, 0}, {0, 1, -1, -1}}},
	{"winogradOutputBack", [][]float32{{1, 0}, {1, 1}, {1, -1}, {0, -1}}},
	{"winogradWeights", [][]float32{{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}},
	{"winogradWeightsBack", [][]float32{{1, .5, .5, 0}, {0, .5, -.5, 0}, {0, .5, .5, 1}}},
}

func winograd() {
	for _, s := range []isa{avx2, avx512} {
		for _, m := range winogradMatrices {
			sandwich(s, m.name, m.p)
		}
	}
}

// grid returns the addresses of a small matrix with strides in both directions,
// and moves all of them by some bytes.
func grid(base, rowStride, colStride string, rows int) (at func(i, j int) Mem, advance func(bytes int)) {
	row, step, step3 := make([]reg.GPVirtual, rows), GP64(), GP64()
	stride := Load(Param(rowStride), GP64()).(reg.GPVirtual)
	SHLQ(Imm(2), stride)
	Load(Param(colStride), step)
	SHLQ(Imm(2), step)
	LEAQ(Mem{Base: step, Index: step, Scale: 2}, step3)
	row[0] = Load(Param(base), GP64()).(reg.GPVirtual)
	for i := 1; i < rows; i++ {
		row[i] = GP64()
		LEAQ(Mem{Base: row[i-1], Index: stride, Scale: 1}, row[i])
	}
	at = func(i, j int) Mem {
		switch j {
		case 0:
			return Mem{Base: row[i]}
		case 3:
			return Mem{Base: row[i], Index: step3, Scale: 1}
		}
		return Mem{Base: row[i], Index: step, Scale: uint8(j)}
	}
	return at, func(bytes int) {
		for _, r := range row {
			ADDQ(Imm(uint64(bytes)), r)
		}
	}
}

// sandwich emits Y = P X P^T for small matrices of vectors.
func sandwich(s isa, name string, p [][]float32) {
	TEXT(name+s.name, NOSPLIT, "func(dst *float32, dstRow, dstCol int, src *float32, srcRow, srcCol, n int)")
	Doc(fmt.Sprintf("%s%s sets dst = P src P^T, entry by entry of n, a multiple of 16: see sandwich.", name, s.name))
	Pragma("noescape")
	out, in := len(p), len(p[0])
	src, srcNext := grid("src", "srcRow", "srcCol", in)
	dst, dstNext := grid("dst", "dstRow", "dstCol", out)
	n := Load(Param("n"), GP64())
	half := s.vector()
	bits := GP32()
	MOVL(U32(0x3f000000), bits)
	x := XMM()
	VMOVD(bits, x)
	VBROADCASTSS(x, half)
	Label("loop")
	for i := range out {
		t := make([]reg.VecVirtual, in)
		for k := range in {
			t[k] = s.combination(p[i], half, func(r int) Op { return src(r, k) })
		}
		for j := range out {
			VMOVUPS(s.combination(p[j], half, func(k int) Op { return t[k] }), dst(i, j))
		}
	}
	srcNext(4 * s.lanes)
	dstNext(4 * s.lanes)
	SUBQ(Imm(uint64(s.lanes)), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// combination emits the sum of c[i]*x(i), the positive terms first.
func (s isa) combination(c []float32, half reg.VecVirtual, x func(i int) Op) reg.VecVirtual {
	v := s.vector()
	first := true
	for _, positive := range []bool{true, false} {
		for i, f := range c {
			if f == 0 || f > 0 != positive {
				continue
			}
			term := x(i)
			if f == .5 || f == -.5 {
				h := s.vector()
				VMULPS(term, half, h)
				term = h
			}
			if first && !positive {
				s.zero(v)
			}
			switch {
			case first && positive:
				VMOVUPS(term, v)
			case positive:
				VADDPS(term, v, v)
			default:
				VSUBPS(term, v, v)
			}
			first = false
		}
	}
	return v
}
