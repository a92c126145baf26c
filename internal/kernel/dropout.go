package kernel

import "fmt"

// DropoutKey names a mask of dropout: the seed of the run, the step and the
// layer. Masks of different keys are independent.
type DropoutKey struct{ Seed, Step, Layer uint64 }

// Dropout (Srivastava et al., 2014) sets dst = x * mask / (1-rate), where each
// entry of the mask is 0 with probability rate and 1 otherwise; a rate of 1 gives zeros. An
// entry of the mask is a function of the key and of its index alone, a counter
// that SplitMix64 (Steele, Lea and Flood, 2014) turns into random bits, so the
// backward pass is the same call on the gradient. dst may be x. It panics
// unless 0 <= rate <= 1.
func Dropout(p *Pool, dst, x []float32, rate float64, key DropoutKey) {
	checkLen("dropout", "x", len(dst), len(x))
	if !(rate >= 0 && rate <= 1) {
		panic(fmt.Sprintf("kernel: dropout: rate %v, want 0 to 1", rate))
	}
	t := dropouts.get()
	*t = dropout{dst: dst, x: x, base: key.base(), least: uint64(rate * (1 << 32))}
	if rate < 1 {
		t.scale = float32(1 / (1 - rate))
	}
	p.run(ceilDiv(len(dst), dropoutChunk), t)
	*t = dropout{}
	dropouts.put(t)
}

// base returns where the key's counters start.
func (k DropoutKey) base() uint64 {
	return splitMix(splitMix(splitMix(k.Seed)+k.Step) + k.Layer)
}

// dropout is a pass under way; a part is a chunk of entries.
type dropout struct {
	dst, x []float32
	base   uint64
	least  uint64 // 32 random bits at least this keep an entry
	scale  float32
}

var dropouts = freeList[dropout]{most: 8}

const dropoutChunk = 1 << 14 // even: two entries share 64 random bits

func (t *dropout) part(i int) {
	lo := i * dropoutChunk
	hi := min(lo+dropoutChunk, len(t.dst))
	dst, x := t.dst[lo:hi], t.x[lo:hi]
	counter := t.base + uint64(lo/2)*goldenGamma
	factor := [2]float32{0, t.scale}
	for ; len(dst) >= 2; dst, x = dst[2:], x[2:] {
		bits := splitMix(counter)
		counter += goldenGamma
		dst[0] = x[0] * factor[atLeastBit(bits&0xffffffff, t.least)]
		dst[1] = x[1] * factor[atLeastBit(bits>>32, t.least)]
	}
	if len(dst) > 0 {
		dst[0] = x[0] * factor[atLeastBit(splitMix(counter)&0xffffffff, t.least)]
	}
}

// atLeastBit is 1 if v >= least, else 0, for numbers of at most 33 bits.
func atLeastBit(v, least uint64) uint64 { return (v-least)>>63 ^ 1 }

const goldenGamma = 0x9e3779b97f4a7c15

// splitMix returns the output of SplitMix64 for a counter.
func splitMix(z uint64) uint64 {
	z += goldenGamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
