//go:build !noasm

package kernel

// packAlongVec is packAlong by whole vectors. It says whether it could.
func packAlongVec(dst, src []float32, ld, width, n, kc int) bool {
	if n == 0 {
		return false
	}
	_, _ = dst[kc*width-1], src[(kc-1)*ld+n-1] // the kernels get raw pointers
	switch {
	case hasAVX512 && width%16 == 0:
		for j := 0; j < width; j += 16 {
			if j < n {
				copyColumnAVX512(&dst[j], width, &src[j], ld, min(16, n-j), kc)
			} else {
				clearColumn(dst[j:], width, 16, kc)
			}
		}
	case hasAVX2 && width%8 == 0:
		for j := 0; j < width; j += 8 {
			if j < n {
				copyColumnAVX2(&dst[j], width, &src[j], ld, min(8, n-j), kc)
			} else {
				clearColumn(dst[j:], width, 8, kc)
			}
		}
	case hasAVX2 && width < 8 && width >= 4 && kc > 2:
		// Each step writes past its end what the next one overwrites, except
		// for the last two.
		copyColumnAVX2(&dst[0], width, &src[0], ld, n, kc-2)
		for p := kc - 2; p < kc; p++ {
			row := dst[p*width : (p+1)*width]
			clear(row[copy(row, src[p*ld:p*ld+n]):])
		}
	default:
		return false
	}
	return true
}

func clearColumn(dst []float32, width, n, kc int) {
	for p := range kc {
		clear(dst[p*width:][:n])
	}
}

// packAcrossVec transposes the first rows of packAcross by blocks of 8 x 8; it
// returns how many rows and how many steps of each.
func packAcrossVec(dst, src []float32, ld, width, n, kc int) (rows, steps int) {
	rows, steps = n&^7, kc&^7
	if !hasAVX2 || rows == 0 || steps == 0 {
		return 0, 0
	}
	_, _ = dst[(steps-1)*width+rows-1], src[(rows-1)*ld+steps-1] // the kernel gets raw pointers
	for j := 0; j < rows; j += 8 {
		transpose8AVX2(&dst[j], width, &src[j*ld], ld, steps)
	}
	return rows, steps
}
