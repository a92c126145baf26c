package coded

import (
	"slices"
	"testing"
)

// pairs is a code of two tasks that each return one block after the other, the
// second task in the other order.
func pairs(t *testing.T, change func(*Definition)) *Code {
	t.Helper()
	d := Definition{
		Name: "pairs", ABlocks: 2, BBlocks: 1, Threshold: 1, MDS: true,
		Tasks: []Task{
			{A: [][]float64{{1, 0}, {0, 1}}, B: [][]float64{{1}}},
			{A: [][]float64{{0, 1}, {1, 0}}, B: [][]float64{{1}}},
		},
	}
	change(&d)
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestChunks: results count one by one.
func TestChunks(t *testing.T) {
	c := pairs(t, func(*Definition) {})
	chunks, err := c.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	if chunks.N() != 4 || chunks.Threshold() != 0 || chunks.MDS() || c.Results(1) != 2 {
		t.Errorf("%v: threshold %d, MDS %t, %d results of task 1", chunks, chunks.Threshold(), chunks.MDS(), c.Results(1))
	}
	for task := range 2 {
		for i := range 2 {
			if got, want := chunks.Rows(c.Chunk(task, i))[0], c.Rows(task)[i]; !slices.Equal(got, want) {
				t.Errorf("result %d of task %d has the row %v, want %v", i, task, got, want)
			}
		}
	}
	tracker := NewTracker(chunks)
	for _, step := range []struct {
		task, result      int
		innovative, ready bool
	}{{0, 0, true, false}, {1, 1, false, false}, {1, 0, true, true}} {
		if got := tracker.Add(c.Chunk(step.task, step.result)); got != step.innovative || tracker.Ready() != step.ready {
			t.Errorf("%+v: innovative %t, ready %t", step, got, tracker.Ready())
		}
	}
	if again, err := chunks.Chunks(); err != nil || again != chunks {
		t.Errorf("the chunks of single results are %v, error %v", again, err)
	}
}

// TestOwnWeights: a code's own weights are used, measured and refused if they
// have the wrong form; nil leaves a set to least squares.
func TestOwnWeights(t *testing.T) {
	own := map[int][][]float64{}
	c := pairs(t, func(d *Definition) { d.Weights = func(have []int) [][]float64 { return own[len(have)] } })
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{1})
	if err != nil || !slices.Equal(w.Row(0), []float64{0, 1}) || !c.OwnWeights() {
		t.Errorf("left to least squares: %+v, error %v", w, err)
	}
	own[1] = [][]float64{{0, 1}, {0.5, 0}}
	w, err = NewDecoder(c, DecoderConfig{MaxCond: 10}).Weights([]int{1})
	if w == nil || w.Residual != 0.125 || w.Residuals[0] != 0 || w.Residuals[1] != 0.25 {
		t.Errorf("half of an output: %+v, error %v", w, err)
	}
	own[1] = [][]float64{{0, 1}}
	if w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{1}); err == nil {
		t.Errorf("weights of one output of two: %+v", w)
	}
	own[1] = [][]float64{{0, 1}, {1}}
	if w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{1}); err == nil {
		t.Errorf("one weight for two results: %+v", w)
	}
}

// TestApproximate: of an approximate code, the best estimate is no error.
func TestApproximate(t *testing.T) {
	half := func(d *Definition) {
		d.Tasks, d.Threshold, d.MDS = d.Tasks[:1], 0, false
		d.Tasks[0].A = d.Tasks[0].A[:1]
	}
	exact := pairs(t, half)
	if _, err := NewDecoder(exact, DecoderConfig{}).Weights([]int{0}); err == nil {
		t.Error("half of the outputs are missing without an error")
	}
	c := pairs(t, func(d *Definition) { half(d); d.Approximate = true })
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{0})
	if err != nil || w.Residual != 0.5 || !c.Approximate() {
		t.Errorf("weights %+v, error %v", w, err)
	}
}
