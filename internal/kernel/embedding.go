package kernel

import "fmt"

// Embedding copies row ids[i] of the weights (vocabulary x dim) to row i of
// dst. It fails on an id out of range, before anything is written.
func Embedding(p *Pool, weights []float32, vocabulary, dim int, ids []int32, dst []float32) error {
	if err := checkIDs(ids, vocabulary); err != nil {
		return err
	}
	t := embeddings.get()
	*t = embedding{vocabulary, dim, ids, atLeast("the weights", weights, vocabulary*dim), atLeast("the output", dst, len(ids)*dim), 0}
	p.run(ceilDiv(len(ids), embeddingRows), t)
	*t = embedding{}
	embeddings.put(t)
	return nil
}

// EmbeddingBackward computes dw, the gradient of the weights: row v of it is the
// sum of the rows i of dy with ids[i] = v, in the order of i.
func EmbeddingBackward(p *Pool, dy []float32, vocabulary, dim int, ids []int32, dw []float32) error {
	if err := checkIDs(ids, vocabulary); err != nil {
		return err
	}
	t := embeddings.get()
	*t = embedding{vocabulary, dim, ids, atLeast("dw", dw, vocabulary*dim), atLeast("dy", dy, len(ids)*dim), min(p.Threads(), vocabulary)}
	p.run(t.parts, (*embeddingBackward)(t))
	*t = embedding{}
	embeddings.put(t)
	return nil
}

func checkIDs(ids []int32, vocabulary int) error {
	for i, id := range ids {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("embedding: id %d at position %d, want 0 to %d", id, i, vocabulary-1)
		}
	}
	return nil
}
