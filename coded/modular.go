package coded

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// Modular returns the code's tasks over a prime field: those that its definition
// gives, or its own if all their coefficients are integers. It fails if the field
// lacks what the code needs; package exact computes with them.
func (c *Code) Modular(p field.Prime) ([]ModularTask, error) {
	tasks, err := c.modular(p)
	if err != nil {
		return nil, fmt.Errorf("coded: %v has no form modulo %d: %w", c, p, err)
	}
	return tasks, nil
}

func (c *Code) modular(p field.Prime) ([]ModularTask, error) {
	if !p.Valid() {
		return nil, fmt.Errorf("the field is unknown")
	}
	if c.def.Modular == nil {
		return integerTasks(c.def.Tasks, p)
	}
	tasks, err := c.def.Modular(p)
	if err != nil {
		return nil, err
	}
	if len(tasks) != c.N() {
		return nil, fmt.Errorf("%d modular tasks for %d tasks", len(tasks), c.N())
	}
	for t, task := range tasks {
		if err := checkTask(task, c.def.ABlocks, c.def.BBlocks); err != nil {
			return nil, fmt.Errorf("modular task %d: %w", t, err)
		}
		if got, want := len(task.results()), len(c.Rows(t)); got != want {
			return nil, fmt.Errorf("modular task %d has %d results, want %d", t, got, want)
		}
	}
	return tasks, nil
}

// integerTasks maps tasks whose coefficients are integers to a field.
func integerTasks(tasks []Task, p field.Prime) ([]ModularTask, error) {
	out := make([]ModularTask, len(tasks))
	for t, task := range tasks {
		a, err := toModular(task.A, p)
		if err != nil {
			return nil, fmt.Errorf("task %d: A: %w", t, err)
		}
		b, err := toModular(task.B, p)
		if err != nil {
			return nil, fmt.Errorf("task %d: B: %w", t, err)
		}
		out[t] = ModularTask{A: a, B: b, Results: task.Results}
	}
	return out, nil
}

// maxInteger bounds coefficients that are taken for integers: float64 holds all
// of its size.
const maxInteger = 1 << 53

// toModular maps rows of integers to a field.
func toModular(rows [][]float64, p field.Prime) ([][]uint64, error) {
	out := make([][]uint64, len(rows))
	for i, row := range rows {
		out[i] = make([]uint64, len(row))
		for j, v := range row {
			if v != math.Trunc(v) || math.Abs(v) >= min(float64(p), maxInteger) {
				return nil, fmt.Errorf("row %d has the coefficient %v, want an integer below %d", i, v, min(uint64(p), maxInteger))
			}
			out[i][j] = p.Int(int64(v))
		}
	}
	return out, nil
}

// Products lists what the task returns, whether Results says so or is nil.
func (t Coefficients[E]) Products() []Output { return t.results() }

// Expand gives a row of M for each result of the task over a field: the sum over
// its products of vec(u v^T).
func (t Coefficients[E]) Expand(f field.Field[E]) [][]E {
	var rows [][]E
	for _, result := range t.results() {
		var row []E
		for _, p := range result {
			u, v := t.A[p.A], t.B[p.B]
			if row == nil {
				row = make([]E, len(u)*len(v))
			}
			for a, x := range u {
				for b, y := range v {
					at := &row[a*len(v)+b]
					*at = f.Add(*at, f.Mul(x, y))
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}
