package coded_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/codetest"
)

// sizes lists, for each code of the registry, what it is tested with. A code
// without sizes fails the test.
func sizes(name string) [][2]int {
	var all [][2]int
	for n := 1; n <= 8; n++ {
		for k := 1; k <= n; k++ {
			switch name {
			case "trigonometric":
				all = append(all, [2]int{n, k})
			case "replication":
				if n%k == 0 {
					all = append(all, [2]int{n, k})
				}
			case "uncoded":
				if n == k {
					all = append(all, [2]int{n, k})
				}
			}
		}
	}
	switch name {
	case "trigonometric":
		all = append(all, [2]int{12, 9}, [2]int{18, 15}, [2]int{31, 28})
	case "replication":
		all = append(all, [2]int{12, 4}, [2]int{30, 10})
	}
	return all
}

func TestConformance(t *testing.T) {
	for _, name := range coded.Names() {
		if len(sizes(name)) == 0 {
			t.Errorf("%s has no sizes to be tested with", name)
		}
		for _, size := range sizes(name) {
			t.Run(fmt.Sprintf("%s/n=%d/k=%d", name, size[0], size[1]), func(t *testing.T) {
				c, err := coded.New(coded.Spec{Name: name, N: size[0], K: size[1]})
				if err != nil {
					t.Fatal(err)
				}
				codetest.Test(t, c, rand.New(rand.NewPCG(uint64(size[0]), uint64(size[1]))))
			})
		}
	}
}
