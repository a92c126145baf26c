package kernel

// portable is the family in Go, for processors without assembly. Its results
// differ from the others' in the last bits, since it rounds products.
var portable = &family{name: "portable 4x4", lanes: 4, vecs: 1, heights: []int{4}, cols: 240, run: productGo}

// productGo keeps a tile of 4 x 4 sums in registers, column pair by column pair.
func productGo(_, _ int, t *tile) {
	if t.keep != nil {
		for p := range t.k {
			copy(t.keep[p*4:p*4+4], t.b[p*t.bs:])
		}
	}
	var sum [4][4]float32
	for i := 0; i < 4; i += 2 {
		sum[i], sum[i+1] = rowsGo(t, i)
	}
	for i := range t.rows {
		row := t.c[i*t.ldc : i*t.ldc+t.cols]
		for j := range row {
			v := t.alpha * sum[i][j]
			if t.beta != 0 {
				v += t.beta * row[j]
			}
			row[j] = v
		}
	}
}

// rowsGo returns rows i and i+1 of the tile's product.
func rowsGo(t *tile, i int) (r0, r1 [4]float32) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	a0, a1, b := t.a[i*t.ars:], t.a[(i+1)*t.ars:], t.b
	for p, at, bt := 0, 0, 0; p < t.k; p, at, bt = p+1, at+t.acs, bt+t.bs {
		x, y, v := a0[at], a1[at], (*[4]float32)(b[bt:])
		c00 += x * v[0]
		c01 += x * v[1]
		c02 += x * v[2]
		c03 += x * v[3]
		c10 += y * v[0]
		c11 += y * v[1]
		c12 += y * v[2]
		c13 += y * v[3]
	}
	return [4]float32{c00, c01, c02, c03}, [4]float32{c10, c11, c12, c13}
}
