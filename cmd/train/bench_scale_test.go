package main

import (
	"testing"
	"time"
)

func TestBenchScale(t *testing.T) {
	var got []scaleRow
	b := &benchCmd{Workers: 6, sized: true, Seconds: 0.05, now: time.Now}
	if err := benchScale(t.Context(), b, func(row any) error { got = append(got, row.(scaleRow)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Fatalf("%d rows, want a real one and a virtual one", len(got))
	}
	r, v := got[0], got[1]
	if r.Workers != 6 || r.K != 4 || r.Virtual || !(r.JoinS > 0) || r.AgreeS < r.JoinS || r.Unknown < 0 || r.Rounds < 1 || !(r.TasksPer > 0) {
		t.Errorf("real row %+v", r)
	}
	if v.Workers != scaleVirtual || v.K != scaleVirtual*3/4 || !v.Virtual || v.JoinS != 0 || v.Rounds < 1 || !(v.TasksPer > 0) {
		t.Errorf("virtual row %+v", v)
	}
}

func TestBenchSizes(t *testing.T) {
	for _, test := range []struct {
		names             []string
		workers, k        int
		wantWorkers, want int // k
		most              int
	}{
		{[]string{"layer"}, 0, 0, 8, 6, maxLocalWorkers},
		{[]string{"layer", "scale"}, 7, 0, 7, 5, maxLocalWorkers},
		{[]string{"scale"}, 0, 0, 200, 150, 4096},
		{[]string{"sim"}, 1, 0, 1, 1, 1 << 20},
		{[]string{"sim"}, 0, 3, 8, 3, 1 << 20},
	} {
		b := &benchCmd{Names: test.names, Workers: test.workers, K: test.k}
		if most := b.sizeCluster(); most != test.most || b.Workers != test.wantWorkers || b.K != test.want || b.sized != (test.workers > 0) {
			t.Errorf("%+v: at most %d, %d workers, k %d, given: %t", test, most, b.Workers, b.K, b.sized)
		}
	}
}
