package coded

import (
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestModularIntegers: a code of integers has itself as its modular form.
func TestModularIntegers(t *testing.T) {
	d := fromGenerator([][]float64{{1, 0}, {0, 1}, {1, -2}})
	d.Name, d.Threshold = "integers", 2
	c, err := NewCode(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []field.Prime{field.Fermat, field.Mersenne31, field.Mersenne61} {
		tasks, err := c.Modular(p)
		if err != nil {
			t.Fatal(err)
		}
		want := []uint64{1, uint64(p) - 2}
		if len(tasks) != 3 || !slices.Equal(tasks[2].A[0], want) || !slices.Equal(tasks[2].Expand(p)[0], want) {
			t.Errorf("modulo %d: %v, want the last row to be %v", p, tasks, want)
		}
		if products := tasks[2].Products(); len(products) != 1 || !slices.Equal(products[0], Output{{0, 0}}) {
			t.Errorf("the products of a task are %v, want that of its coded blocks", products)
		}
	}
}

func TestNoModularForm(t *testing.T) {
	for want, test := range map[string]struct {
		g [][]float64
		p field.Prime
	}{
		"the field is unknown": {[][]float64{{1}}, 7},
		"task 1: A: row 0 has the coefficient 0.5, want an integer below 65537":     {[][]float64{{1}, {0.5}}, field.Fermat},
		"task 0: A: row 0 has the coefficient 65537, want an integer below 65537":   {[][]float64{{65537}}, field.Fermat},
		"task 0: A: row 0 has the coefficient -9.007199254740992e+15, want an inte": {[][]float64{{-1 << 53}}, field.Mersenne61},
	} {
		d := fromGenerator(test.g)
		d.Name = "test"
		c, err := NewCode(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Modular(test.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
