package shard

import (
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// followed are the sums of one coded copy. Its tensor is [lines, rows, each]: a row
// is a feature, or a channel, of every block. A Linear has one line, F of a
// convolution one for each group, R one for each output channel; the lines of a
// group share their signs.
type followed struct {
	shape             []int // of the tensor
	groups            int
	lines, rows, each int
	blocks, parts     int       // of the weights; of the rows
	signs             []float32 // [groups, rows]
	w, v              []float64 // [lines, blocks, parts, each]
	norm              float64   // of w; expected to be that of the weights
	g                 []float32
	folded, more      buffer // an operand's coded blocks; the gradient of a second pair
	planes            [][]float32
}

// init draws the signs.
func (f *followed) init(rng *rand.Rand) {
	f.signs = make([]float32, f.groups*f.rows)
	for i := range f.signs {
		f.signs[i] = float32(2*rng.IntN(2) - 1)
	}
	n := f.lines * f.blocks * f.parts * f.each
	f.w, f.v, f.g = make([]float64, n), make([]float64, n), make([]float32, n)
}

// lineSigns are the signs of a line's rows.
func (f *followed) lineSigns(line int) []float32 {
	group := line / (f.lines / f.groups)
	return f.signs[group*f.rows : (group+1)*f.rows]
}

// take decodes the sums of the blocks from those of slots' tensors.
func (f *followed) take(dst []float64, decode [][]float64, state func(i int) coded.Tensor) {
	clear(dst)
	n := f.parts * f.each
	for i := range decode[0] {
		sums := f.sums(state(i))
		for line := range f.lines {
			for block, d := range decode {
				to := dst[(line*f.blocks+block)*n:]
				for at, s := range sums[line*n : (line+1)*n] {
					to[at] += d[i] * s
				}
			}
		}
	}
}

// sums adds up the rows of each part of a tensor, with the signs: [lines, parts,
// each].
func (f *followed) sums(x coded.Tensor) []float64 {
	sums := make([]float64, f.lines*f.parts*f.each)
	f.addSums(sums, x)
	return sums
}

func (f *followed) addSums(sums []float64, x coded.Tensor) {
	for line := range f.lines {
		signs := f.lineSigns(line)
		for part := range f.parts {
			lo, hi := ChunkRange(f.rows, f.parts, part)
			sum := sums[(line*f.parts+part)*f.each:][:f.each]
			for r := lo; r < hi; r++ {
				z := float64(signs[r])
				for c, v := range x.Data[(line*f.rows+r)*f.each:][:f.each] {
					sum[c] += z * float64(v)
				}
			}
		}
	}
}

// merge adds up the sums of all parts, which are one from now on.
func (f *followed) merge() {
	f.w, f.v, f.g = mergeParts(f.w, f.parts, f.each), mergeParts(f.v, f.parts, f.each), mergeParts(f.g, f.parts, f.each)
	f.parts = 1
	f.norm = math.Sqrt(squares(f.w))
}

// mergeParts adds up the parts of x, [vectors, parts, each], in its memory.
func mergeParts[T float32 | float64](x []T, parts, each int) []T {
	n := len(x) / parts
	for i := range n {
		var sum T
		for part := range parts {
			sum += x[(i/each*parts+part)*each+i%each]
		}
		x[i] = sum
	}
	return x[:n]
}

// slot writes the sums of a slot, the combination of those of the blocks, for the
// parts lo to hi together: [lines, each].
func (f *followed) slot(dst []float32, row []float64, lo, hi int) {
	for line := range f.lines {
		for e := range f.each {
			var sum float64
			for part := lo; part < hi; part++ {
				sum += f.sum(row, line, part, e)
			}
			dst[line*f.each+e] = float32(sum)
		}
	}
}

// sum is one of the sums of a slot.
func (f *followed) sum(row []float64, line, part, e int) float64 {
	var sum float64
	for block, g := range row {
		sum += g * f.w[((line*f.blocks+block)*f.parts+part)*f.each+e]
	}
	return sum
}

// rounding says what a slot's products may be off by; its tensor's norm is at least
// what is expected of it.
func (f *followed) rounding(row []float64, terms int, off float64) coded.Rounding {
	return coded.Rounding{Terms: terms, Norm: math.Sqrt(squares(row)) * f.norm, Off: off}
}

// checkState compares the sums of a slot's tensor.
func (f *followed) checkState(row []float64, state coded.Tensor, off float64) error {
	var apart, size float64
	for i, s := range f.sums(state) {
		line, part, e := i/f.each/f.parts, i/f.each%f.parts, i%f.each
		want := f.sum(row, line, part, e)
		apart += (s - want) * (s - want)
		size += want * want
	}
	apart = math.Sqrt(apart)
	limit := off / (1 << 24) * math.Sqrt(max(size, kernel.SumSquares(state.Data)))
	if !(apart <= limit) || math.IsInf(apart, 0) {
		return &coded.VerifyError{Difference: apart, Limit: limit}
	}
	return nil
}

// apply makes one step of the optimiser with the numbers that the shards round
// its settings to.
func (f *followed) apply(u coded.Update) {
	lr, momentum := float64(float32(u.LR)), float64(float32(u.Momentum))
	decay, scale := float64(float32(u.Decay)), float64(float32(u.Scale))
	for i, grad := range f.g {
		g := scale*float64(grad) + decay*f.w[i]
		v := momentum*f.v[i] + g
		f.v[i] = v
		if u.Nesterov {
			v = g + momentum*v
		}
		f.w[i] -= lr * v
	}
	f.norm = math.Sqrt(squares(f.w))
}
