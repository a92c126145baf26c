package coded

import "testing"

// TestPartialPatterns: every first result is needed, and any n-s of the second
// ones. All patterns of a worker's none, one or two results are tried.
func TestPartialPatterns(t *testing.T) {
	const n, s = 4, 1
	c := specCode(t, Spec{Name: "partial-gradients", N: n, K: 8, Load: 3, Weight: 2})
	chunks, err := c.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	tracker := NewTracker(chunks)
	for pattern := range 81 {
		tracker.Reset()
		first, second := 0, 0
		var sent [n]int
		for w, rest := 0, pattern; w < n; w, rest = w+1, rest/3 {
			sent[w] = rest % 3
			for i := range sent[w] {
				tracker.Add(c.Chunk(w, i))
			}
			first += min(sent[w], 1)
			second += max(sent[w]-1, 0)
		}
		if want := first == n && second >= n-s; tracker.Ready() != want {
			t.Errorf("results %v: ready is %t, want %t", sent, tracker.Ready(), want)
		}
	}
}

// TestPartialOrder: the first result of a worker is the plain sum of its own parts,
// which nobody else has.
func TestPartialOrder(t *testing.T) {
	c := specCode(t, Spec{Name: "partial-gradients", N: 6, K: 18, Load: 5, Weight: 3})
	for w := range c.N() {
		rows := c.Rows(w)
		if len(rows) != 2 {
			t.Fatalf("worker %d has %d results", w, len(rows))
		}
		for p, v := range rows[0] {
			if own := p/2 == w; (v == 1) != own || (v == 0) == own {
				t.Errorf("worker %d, first result, part %d: %g", w, p, v)
			}
			if p < 12 && rows[1][p] != 0 {
				t.Errorf("worker %d, second result, part %d: %g", w, p, rows[1][p])
			}
		}
	}
}
