package kernel

// avgPool is the task of a forward pass; a part is one image.
type avgPool struct {
	AvgPool
	in, out []float32
}

// avgUnpool is the task of a backward pass.
type avgUnpool avgPool

var (
	avgPools    = freeList[avgPool]{most: 8}
	globalPools = freeList[globalPool]{most: 8}
)

// span returns the entries lo..hi-1 of a window of one dimension that lie
// inside, window o of the given kernel and stride.
func span(o, kernel, stride, pad, in int) (lo, hi int) {
	lo = o*stride - pad
	return max(lo, 0), min(lo+kernel, in)
}

// divisor returns what the sum of rows x cols entries is divided by.
func (g *AvgPool) divisor(rows, cols int) float32 {
	if g.ExcludePad {
		return float32(rows * cols)
	}
	return float32(g.KH * g.KW)
}

func (t *avgPool) part(image int) {
	plane := t.H * t.W
	out := t.out[image*t.C*t.OutH()*t.OutW():]
	for c := range t.C {
		in := t.in[(image*t.C+c)*plane:][:plane]
		for r := range t.OutH() {
			row := out[:t.OutW()]
			out = out[t.OutW():]
			top, bottom := span(r, t.KH, t.StrideH, t.PadH, t.H)
			t.poolRow(row, in, top, bottom)
		}
	}
}

// poolRow averages the windows of one row of the output.
func (t *avgPool) poolRow(row, in []float32, top, bottom int) {
	for j := range row {
		left, right := span(j, t.KW, t.StrideW, t.PadW, t.W)
		var sum float32
		for i := top; i < bottom; i++ {
			for _, v := range in[i*t.W+left : i*t.W+right] {
				sum += v
			}
		}
		row[j] = sum / t.divisor(bottom-top, right-left)
	}
}

func (u *avgUnpool) part(image int) {
	t := (*avgPool)(u)
	plane := t.H * t.W
	out := t.out[image*t.C*t.OutH()*t.OutW():]
	for c := range t.C {
		in := t.in[(image*t.C+c)*plane:][:plane]
		clear(in)
		for r := range t.OutH() {
			row := out[:t.OutW()]
			out = out[t.OutW():]
			top, bottom := span(r, t.KH, t.StrideH, t.PadH, t.H)
			t.spreadRow(row, in, top, bottom)
		}
	}
}

// spreadRow adds the gradients of one row of the output to their windows.
func (t *avgPool) spreadRow(row, in []float32, top, bottom int) {
	for j, d := range row {
		left, right := span(j, t.KW, t.StrideW, t.PadW, t.W)
		d /= t.divisor(bottom-top, right-left)
		for i := top; i < bottom; i++ {
			line := in[i*t.W+left : i*t.W+right]
			for k := range line {
				line[k] += d
			}
		}
	}
}

// globalPool is the task of global pooling; a part is some planes.
type globalPool struct {
	planes, size int
	in, out      []float32
}

type globalUnpool globalPool

const globalPlanes = 64

func (t *globalPool) part(i int) {
	for c := i * globalPlanes; c < min((i+1)*globalPlanes, t.planes); c++ {
		t.out[c] = float32(sum64(t.in[c*t.size:][:t.size]) / float64(t.size))
	}
}

func (u *globalUnpool) part(i int) {
	t := (*globalPool)(u)
	for c := i * globalPlanes; c < min((i+1)*globalPlanes, t.planes); c++ {
		fill(t.in[c*t.size:][:t.size], t.out[c]/float32(t.size))
	}
}

// fill sets every entry of x to v: copies are faster than stores one by one.
func fill(x []float32, v float32) {
	if len(x) == 0 {
		return
	}
	x[0] = v
	for n := 1; n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}
