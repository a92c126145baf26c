package kernel

// combineAll is a CombineAll under way. A part is some columns of a row, or some
// rows if they are short.
type combineAll struct {
	dst, xs              [][]float32
	ldd, ldx, rows, cols int

	tile   int  // columns of a tile
	pack   bool // tiles of the inputs are copied to memory that is contiguous
	stream bool // results bypass the caches

	groups  []combineGroup
	inputs  [][]float32 // of one group after another
	index   []int       // which of xs they are
	weights []float32   // each weightLanes times: those of a group's first input, its second, ...
	one     [1][]float32
}

// combineGroup is one, two or four sums that follow each other and have the same
// inputs: what is loaded serves them all.
type combineGroup struct {
	first, sums int // in dst
	inputs, end int // in inputs
	weights     int // where they begin
}

// weightLanes is how often a weight is stored: once for every lane of a vector.
const weightLanes = 16

// The caches nearest to a processor have 8 ways. Tiles of more inputs, which often
// lie a power of two apart, would evict each other between one group and the next:
// they are copied.
const (
	cacheWays     = 8
	packMost      = 64       // inputs of which two copied tiles fit into a second-level cache
	directTile    = 128      // columns of a tile that is read in place: a multiple of all groups of vectors
	packedTile    = 1 << 10  // and of one that is copied: a page of each input
	packedStride  = 5 << 8   // from one input to the next; a multiple of 4 KB would share the ways again
	packedPiece   = 1 << 8   // columns that are made at a time of a copied tile
	combinePart   = 1 << 15  // columns of a part
	combineStream = 16 << 20 // bytes read and written from which on results bypass the caches
)

var combineAlls = freeList[combineAll]{most: 8}

func (t *combineAll) release() {
	clear(t.inputs)
	*t = combineAll{groups: t.groups[:0], inputs: t.inputs[:0], index: t.index[:0], weights: t.weights[:0]}
	combineAlls.put(t)
}

// plan groups the sums and decides how they are made.
func (t *combineAll) plan(w [][]float64) {
	for first := 0; first < len(w); {
		n := 1
		for n < 4 && first+n < len(w) && sameInputs(w[first], w[first+n]) {
			n++
		}
		if n == 3 {
			n = 2
		}
		t.addGroup(w[first:first+n], first)
		first += n
	}
	t.tile, t.pack = directTile, len(t.xs) > cacheWays && len(t.xs) <= packMost && len(t.groups) > 2
	if t.pack {
		t.tile = packedTile
	}
	t.stream = t.rows*t.cols >= combineStream/4/(len(t.dst)+len(t.xs))
}

func sameInputs(a, b []float64) bool {
	for i, v := range a {
		if (v == 0) != (b[i] == 0) {
			return false
		}
	}
	return true
}

func (t *combineAll) addGroup(w [][]float64, first int) {
	g := combineGroup{first: first, sums: len(w), inputs: len(t.inputs), weights: len(t.weights)}
	for i, x := range t.xs {
		if w[0][i] == 0 {
			continue
		}
		t.inputs, t.index = append(t.inputs, x), append(t.index, i)
		for _, row := range w {
			t.addWeight(float32(row[i]))
		}
	}
	g.end = len(t.inputs)
	t.groups = append(t.groups, g)
}

func (t *combineAll) addWeight(w float32) {
	for range weightLanes {
		t.weights = append(t.weights, w)
	}
}

// shape returns the rows and columns of a part.
func (t *combineAll) shape() (rows, cols int) {
	return max(1, combinePart/t.cols), min(combinePart, t.cols)
}

func (t *combineAll) parts() int {
	rows, cols := t.shape()
	return ceilDiv(t.rows, rows) * ceilDiv(t.cols, cols)
}
