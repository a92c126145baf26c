package kernel

// embedding is a look-up under way; a part is some rows of the output.
type embedding struct {
	vocabulary, dim int
	ids             []int32
	weights, out    []float32
	parts           int // of the vocabulary
}

// embeddingBackward is its gradient; a part is a range of the vocabulary, for
// which all ids are looked through: each row is summed in order whoever computes.
type embeddingBackward embedding

var embeddings = freeList[embedding]{most: 8}

const embeddingRows = 64

func (t *embedding) part(i int) {
	for r := i * embeddingRows; r < min((i+1)*embeddingRows, len(t.ids)); r++ {
		id := int(t.ids[r])
		copy(t.out[r*t.dim:(r+1)*t.dim], t.weights[id*t.dim:])
	}
}

func (b *embeddingBackward) part(i int) {
	t := (*embedding)(b)
	lo, hi := i*t.vocabulary/t.parts, (i+1)*t.vocabulary/t.parts
	clear(t.weights[lo*t.dim : hi*t.dim])
	for r, id := range t.ids {
		if v := int(id); v >= lo && v < hi {
			row := t.weights[v*t.dim:][:t.dim]
			Add(row, row, t.out[r*t.dim:][:t.dim])
		}
	}
}
