package coded

import (
	"errors"
	"strings"
	"testing"
)

// TestLayerCut writes the cuts of a code out that has another number in each direction.
func TestLayerCut(t *testing.T) {
	l := LayerCut{M: 2, P: 3, Q: 5}
	for p, want := range map[Product][3]int{Forward: {2, 3, 5}, Backward: {2, 5, 3}, Gradient: {3, 5, 2}} {
		if batch, in, out := l.Blocks(p); [3]int{batch, in, out} != want {
			t.Errorf("%s: %d, %d, %d, want %v", p, batch, in, out, want)
		}
	}
	for _, l := range []LayerCut{l, {M: 1, P: 4, Q: 2}, {M: 6, P: 1, Q: 2}} {
		for _, backward := range []bool{false, true} {
			var want [3]int
			for p := Forward; p <= Gradient; p++ {
				if batch, in, out := l.Blocks(p); backward || p != Backward {
					want = [3]int{max(want[0], batch), max(want[1], in), max(want[2], out)}
				}
			}
			if batch, in, out := l.Finest(backward); [3]int{batch, in, out} != want {
				t.Errorf("%+v, backward %v: %d, %d, %d, want %v", l, backward, batch, in, out, want)
			}
		}
	}
}

func TestFitLayer(t *testing.T) {
	all := func(LayerCut) bool { return true }
	for _, c := range []struct {
		spec, want Spec
		k          int
		suits      func(LayerCut) bool
	}{
		{Spec{Name: "ortho-polynomial", N: 6}, Spec{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}, 4, all},
		{Spec{Name: "ortho-polynomial", N: 6}, Spec{Name: "ortho-polynomial", N: 6, M: 1, Q: 5}, 5, all},
		{Spec{Name: "ortho-polynomial", N: 6, M: 1}, Spec{Name: "ortho-polynomial", N: 6, M: 1, Q: 4}, 4, all},
		{Spec{Name: "ortho-polynomial", N: 8}, Spec{Name: "ortho-polynomial", N: 8, M: 3, Q: 2}, 6, func(l LayerCut) bool { return l.Q < 3 }},
		{Spec{Name: "ortho-matdot", N: 8}, Spec{Name: "ortho-matdot", N: 8, P: 3}, 6, all},
		{Spec{Name: "rotation", N: 8}, Spec{Name: "rotation", N: 8, M: 6, Q: 4}, 6, func(l LayerCut) bool { return l.Q <= 4 }},
		{Spec{Name: "entangled", N: 8, P: 2}, Spec{Name: "entangled", N: 8, M: 1, P: 2, Q: 2}, 5, all},
		{Spec{Name: "product", N: 9, Groups: 3}, Spec{Name: "product", N: 9, M: 2, Q: 2, Groups: 3}, 6, all},
	} {
		got, err := FitLayer(c.spec, c.k, c.suits)
		if err != nil || got != c.want {
			t.Errorf("%v, any %d: %v, error %v, want %v", c.spec, c.k, got, err, c.want)
		}
	}
}

func TestFitLayerRefuses(t *testing.T) {
	all := func(LayerCut) bool { return true }
	for want, s := range map[string]Spec{
		"product of two coded factors": {Name: "trigonometric", N: 6},
		"any 1 of 6 answers suffice":   {Name: "ortho-polynomial", N: 6},
		"the names are":                {Name: "none", N: 6},
	} {
		_, err := FitLayer(s, 1, all)
		var spec *SpecError
		if !errors.As(err, &spec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want a *SpecError with %q", s, err, want)
		}
	}
}
