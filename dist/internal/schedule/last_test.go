package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Workers as fast as each other are given as many chunks each, in whatever order they
// come: nobody is left with chunks that are covered already while another one has to be
// done by somebody who has done as much as all others.
func TestLastChunksAreShared(t *testing.T) {
	for _, c := range []struct{ workers, need, chunks, each int }{
		{8, 6, 4, 3}, {8, 6, 8, 6}, {8, 6, 12, 9}, {8, 6, 16, 12}, {10, 8, 5, 4}, {20, 16, 5, 4}, {6, 4, 3, 2}, {4, 2, 4, 2},
	} {
		t.Run(fmt.Sprintf("%d of %d, %d chunks", c.need, c.workers, c.chunks), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(c.chunks)))
			s := NewPulled(func() Covered { return NewCount(c.chunks, c.need) }, c.workers, c.chunks, nil)
			for range 100 {
				s.Reset()
				for turn := range c.each {
					for _, worker := range rng.Perm(c.workers) {
						chunk, _, ok := s.Next(worker, false, float64(turn))
						if !ok {
							t.Fatalf("worker %d is not given chunk number %d of %d", worker, turn+1, c.each)
						}
						s.Start(worker, chunk, float64(turn))
					}
				}
				if chunk, _, ok := s.Next(0, false, float64(c.each)); ok {
					t.Fatalf("worker 0 is given chunk %d, one more than all", chunk)
				}
			}
		})
	}
}

// A worker that nobody can spare takes what is covered least, as ever: here the other two
// have been given both chunks.
func TestLastChunksOfTheOnlyOneLeft(t *testing.T) {
	s := NewPulled(func() Covered { return NewCount(2, 3) }, 3, 2, nil)
	for worker := range 2 {
		for chunk := range 2 {
			s.Start(worker, chunk, 0)
		}
	}
	for range 2 {
		chunk, _, ok := s.Next(2, false, 1)
		if !ok {
			t.Fatal("the last worker is given nothing")
		}
		s.Start(2, chunk, 1)
	}
}
