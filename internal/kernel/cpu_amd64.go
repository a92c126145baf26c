//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C gen run . -out ../kernels_amd64.s -stubs ../kernels_amd64.go -pkg kernel
//go:generate go -C gen run . -optim -out ../kernels_optim_amd64.s -stubs ../kernels_optim_amd64.go -pkg kernel

// What the generated kernels need; VNNI and the like are not used.
var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ
)

func nativeFamilies() (list []*family) {
	if hasAVX2 {
		list = append(list, familyAVX2)
	}
	if hasAVX512 {
		list = append(list, familyAVX512)
	}
	return list
}

// The kernels of one family give the same bits as those of the other: each
// element is one chain of fused multiply-adds over k in either.
var (
	familyAVX2 = &family{name: "AVX2 6x16", lanes: 8, vecs: 2, heights: []int{1, 2, 4, 6}, cols: 240, tiles: sgdTiles{sgdTile16AVX2, sgdMomentumTile16AVX2, sgdNesterovTile16AVX2}, run: func(height, vecs int, t *tile) {
		productsAVX2[height][vecs-1].run(t)
	}}
	// Narrow tiles are bound by the broadcasts of A, of which some processors
	// (Zen 4) do twice as many when they are 256 bits wide.
	// The second-level cache of those with AVX-512 is about a megabyte.
	familyAVX512 = &family{name: "AVX-512 8x48", lanes: 16, vecs: 3, heights: []int{1, 2, 4, 8}, cols: 480, narrow: familyAVX2, tiles: sgdTiles{sgdTile48AVX512, sgdMomentumTile48AVX512, sgdNesterovTile48AVX512}, run: func(height, vecs int, t *tile) {
		productsAVX512[height][vecs-1].run(t)
	}}
)

// product is a micro-kernel in assembly; the fields of tile say what it does.
type product func(k int, a *float32, ars, acs int, b *float32, bs int, keep, next, beside *float32, ns int, c *float32, ldc, rows, cols int, alpha, beta float32)

func (f product) run(t *tile) {
	var keep *float32
	if t.keep != nil {
		keep = &t.keep[0]
	}
	var next *float32
	if len(t.next) > 0 {
		next = &t.next[0]
	}
	var beside *float32
	if len(t.beside) > 0 {
		beside = &t.beside[0]
	}
	f(t.k, &t.a[0], t.ars, t.acs, &t.b[0], t.bs, keep, next, beside, t.nextStep, &t.c[0], t.ldc, t.rows, t.cols, t.alpha, t.beta)
}

// The kernels by height and by vectors less one.
var (
	productsAVX2 = [7][2]product{
		1: {product1x8AVX2, product1x16AVX2},
		2: {product2x8AVX2, product2x16AVX2},
		4: {product4x8AVX2, product4x16AVX2},
		6: {product6x8AVX2, product6x16AVX2},
	}
	productsAVX512 = [9][3]product{
		1: {product1x16AVX512, product1x32AVX512, product1x48AVX512},
		2: {product2x16AVX512, product2x32AVX512, product2x48AVX512},
		4: {product4x16AVX512, product4x32AVX512, product4x48AVX512},
		8: {product8x16AVX512, product8x32AVX512, product8x48AVX512},
	}
)
