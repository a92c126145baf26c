package main

import (
	"math"
	"testing"
)

// A run whose layers are shipped follows a local one: the first twenty losses are equal but
// for rounding, and then the means of every fifty, whichever workers answer.
func TestShippedRunFollowsLocal(t *testing.T) {
	t.Chdir(t.TempDir())
	const close, means, each = 20, 2, 50
	losses := func(name string, flags ...string) (list []float64) {
		p := start(t, append([]string{"run", "--dataset=synthetic", "--model=lenet", "--batch=16", "--steps=120", "--lr=0.004",
			"--schedule=constant", "--out=" + name, "--json=" + name + ".jsonl"}, flags...)...)
		if _, status := p.wait(); status != exitDone {
			t.Fatalf("%s: exit status %d: %s", name, status, p.stderr.String())
		}
		steps, err := readSteps(name + ".jsonl")
		if err != nil || len(steps) != close+means*each {
			t.Fatalf("%s: %d steps, %v", name, len(steps), err)
		}
		for _, s := range steps {
			list = append(list, s.Loss)
		}
		return list
	}
	want := losses("local", "--placement=local")
	got := losses("shipped", "--placement=shipped", "--code=rotation", "--survivors=random")
	for i := range close {
		if !(math.Abs(got[i]-want[i]) <= 1e-3) {
			t.Errorf("step %d: loss %g, local %g", i+1, got[i], want[i])
		}
	}
	mean := func(list []float64) (m float64) {
		for _, v := range list {
			m += v / float64(len(list))
		}
		return m
	}
	for from := close; from < len(want); from += each {
		m, w := mean(got[from:from+each]), mean(want[from:from+each])
		if !(math.Abs(m-w) <= 0.1*w) {
			t.Errorf("steps %d to %d: mean loss %g, local %g", from+1, from+each, m, w)
		}
		t.Logf("steps %d to %d: mean loss %.6f, local %.6f", from+1, from+each, m, w)
	}
	if !(want[len(want)-1] < 0.8*want[0]) {
		t.Errorf("loss %g after %g: nothing was learnt", want[len(want)-1], want[0])
	}
}
