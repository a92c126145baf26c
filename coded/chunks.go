package coded

import (
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// Chunks returns the code in which every result of a task is a task of its own,
// for counting the work of workers that did not finish: result i of task t is
// task Chunk(t, i). Its claims are those that remain: none about numbers of
// tasks, unless every task has one result, and then it is the code itself.
func (c *Code) Chunks() (*Code, error) {
	if len(c.rows) == c.N() {
		return c, nil
	}
	d := c.def
	d.Tasks = chunkTasks(d.Tasks)
	d.Threshold, d.MDS, d.Prefix, d.Weights = 0, false, 0, nil
	if c.def.Modular != nil {
		d.Modular = c.def.modularChunks
	}
	chunks, err := NewCode(d)
	if err != nil {
		return nil, fmt.Errorf("coded: chunks of %v: %w", c, err)
	}
	return chunks, nil
}

// Chunk returns the number that result i of task t has in Chunks. Task and
// result index like a slice.
func (c *Code) Chunk(t, i int) int { return c.first[t : t+1][0] + i }

// Results returns the number of results of a task, 0 <= t < N.
func (c *Code) Results(t int) int { return c.first[t+1] - c.first[t] }

func (d Definition) modularChunks(p field.Prime) ([]ModularTask, error) {
	tasks, err := d.Modular(p)
	if err != nil {
		return nil, err
	}
	return chunkTasks(tasks), nil
}

// chunkTasks makes a task of each result.
func chunkTasks[E any](tasks []Coefficients[E]) []Coefficients[E] {
	var chunks []Coefficients[E]
	for _, task := range tasks {
		for _, result := range task.results() {
			chunks = append(chunks, Coefficients[E]{A: task.A, B: task.B, Results: []Output{result}})
		}
	}
	return chunks
}
