//go:build !noasm

package kernel

//go:generate go -C gen run ./conv -out ../conv_amd64.s -stubs ../conv_amd64.go -pkg kernel

func nativeConvISAs() (list []*convISA) {
	if hasAVX2 {
		list = append(list, &convISA{
			name: "AVX2", wide: 16, narrow: 8,
			sweeps: []sweepKernel{
				{3, 2, sweepAVX2_2x3x16, sweepAVX2_2x3x8},
				{2, 3, sweepAVX2_3x2x16, sweepAVX2_3x2x8},
			},
			transpose: transposePortable,
			spread:    spreadPortable,
			sumRows:   sumRowsPortable,
			pool2:     poolPairsPortable,
			unpool2:   unpoolPairsPortable,
			winograd: [len(winogradForms)][winogradMatrixCount]sandwichKernel{
				{
					winogradB: winogradInputAVX2, winogradA: winogradOutputAVX2, winogradAT: winogradOutputBackAVX2,
					winogradG: winogradWeightsAVX2, winogradGT: winogradWeightsBackAVX2,
				},
				{
					winogradB: wideInputAVX2, winogradA: wideOutputAVX2, winogradAT: wideOutputBackAVX2,
					winogradG: wideWeightsAVX2, winogradGT: wideWeightsBackAVX2,
				},
			},
		})
	}
	if hasAVX512 {
		list = append(list, &convISA{
			name: "AVX512", wide: 32, narrow: 16,
			sweeps: []sweepKernel{
				{7, 2, sweepAVX512_2x7x32, sweepAVX512_2x7x16},
				{4, 3, sweepAVX512_3x4x32, sweepAVX512_3x4x16},
				{3, 4, sweepAVX512_4x3x32, sweepAVX512_4x3x16},
				{5, 2, sweepAVX512_2x5x32, sweepAVX512_2x5x16},
			},
			transpose: transposeStripAVX512,
			spread:    spreadPlanesAVX512,
			sumRows:   sumWideRowsAVX512,
			pool2:     poolRowPairsAVX512,
			unpool2:   unpoolRowPairsAVX512,
			winograd: [len(winogradForms)][winogradMatrixCount]sandwichKernel{
				{
					winogradB: winogradInputAVX512, winogradA: winogradOutputAVX512, winogradAT: winogradOutputBackAVX512,
					winogradG: winogradWeightsAVX512, winogradGT: winogradWeightsBackAVX512,
				},
				{
					winogradB: wideInputAVX512, winogradA: wideOutputAVX512, winogradAT: wideOutputBackAVX512,
					winogradG: wideWeightsAVX512, winogradGT: wideWeightsBackAVX512,
				},
			},
		})
	}
	return list
}

// The assembly takes pointers: these check every length first.

func transposeStripAVX512(dst []float32, ldd int, src []float32, lds, rows, cols, width int, e *epilogue) {
	_ = dst[(cols-1)*ldd+width-1]
	if rows == 0 {
		transposePortable(dst, ldd, src, lds, rows, cols, width, e)
		return
	}
	_ = src[(rows-1)*lds+cols-1]
	if e == nil {
		transposeAVX512(&dst[0], ldd, &src[0], lds, rows, cols, width)
		return
	}
	_ = e.bias[cols-1]
	transposeBiasAVX512(&dst[0], ldd, &src[0], lds, rows, cols, width, &e.bias[0], e.floor)
}

func spreadPlanesAVX512(dst []float32, pitch, plane int, src []float32, w, rows, planes int) {
	_ = dst[(planes-1)*plane+(rows-1)*pitch+w-1]
	_ = src[planes*rows*w-1]
	spreadAVX512(&dst[0], pitch, plane, &src[0], w, rows, planes)
}

func sumWideRowsAVX512(acc, src []float32, rows int) {
	if rows == 0 {
		return
	}
	_ = src[rows*len(acc)-1]
	for j := 0; j < len(acc); j += 16 {
		sumRowsAVX512(&acc[j], &src[j], len(acc), rows)
	}
}

func poolRowPairsAVX512(g *MaxPool, in, out []float32, choice []uint16, w, pairs int) {
	checkPairs(in, out, choice, w, pairs)
	relu := uint16(0)
	if g.ReLU {
		relu = 0xffff
	}
	maxPoolPairsAVX512(&out[0], &choice[0], &in[0], w, pairs, relu)
}

func unpoolRowPairsAVX512(_ *MaxPool, in, out []float32, choice []uint16, w, pairs int) {
	checkPairs(in, out, choice, w, pairs)
	unpoolPairsAVX512(&in[0], &out[0], &choice[0], w, pairs)
}

func checkPairs(in, out []float32, choice []uint16, w, pairs int) {
	_ = in[2*w*pairs-1]
	_ = out[w/2*pairs-1]
	_ = choice[w/2*pairs-1]
}
