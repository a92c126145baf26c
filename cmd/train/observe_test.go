package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

// heard is an observer that keeps what it hears.
type heard struct {
	spans []string
	mu    sync.Mutex
	tasks []dist.TaskStats
}

func (h *heard) round(s span) {
	if s.took < 0 || s.began.IsZero() || s.step != 1 {
		h.spans = append(h.spans, fmt.Sprintf("wrong: %+v", s))
	}
	h.spans = append(h.spans, string(s.phase))
}

func (h *heard) task(s dist.TaskStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks = append(h.tasks, s)
}

// memoryRounds makes a step of a forward and a backward round over two workers
// of this process, and lets an observer hear of it.
func memoryRounds(t *testing.T, to observer, change ...func(*dist.CoordinatorConfig)) *memoryCluster {
	t.Helper()
	config := dist.CoordinatorConfig{OnTask: to.task}
	for _, f := range change {
		f(&config)
	}
	c, err := startMemoryCluster(t.Context(), 2, config, scaleHandlers)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	e := observeExecutor(c.coordinator, to)
	layer := coded.Layer{Name: "fc", Kind: scaleKind, Chunks: 2, Code: coded.Spec{Name: "trigonometric", N: 2, K: 2}}
	err = e.Place(t.Context(), layer, func(int) ([]coded.Tensor, error) { return []coded.Tensor{coded.NewTensor(1)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		r, err := e.Start(t.Context(), coded.Round{Layer: "fc", Product: p, Step: 1, Operand: coded.NewTensor(1, 1), Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Release()
		r.Release()
	}
	if err := e.Update(t.Context(), coded.Update{Step: 1, LR: 1, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestObservedExecutor(t *testing.T) {
	var h heard
	memoryRounds(t, observers{&h})
	want := []string{"start", "wait", "decode", "start", "wait", "decode", "update"}
	if !slices.Equal(h.spans, want) {
		t.Errorf("phases %v, want %v", h.spans, want)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tasks) != 8 {
		t.Errorf("%d tasks, want 2 chunks of 2 products by 2 workers", len(h.tasks))
	}
}
