package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kept is a sink that keeps the names of events.
type kept []string

func (k *kept) emit(event any) error {
	*k = append(*k, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", event), "main."), "Event"))
	return nil
}

func emitAll(t *testing.T, events ...any) []string {
	t.Helper()
	var k kept
	e := &runEvents{to: sinks{&k}}
	for _, one := range events {
		if err := e.emit(one); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func TestEventsHaveAnOrder(t *testing.T) {
	w := workerEvent{}
	for _, test := range []struct {
		events []any
		want   string
	}{
		{[]any{w, startEvent{}, w, doneEvent{}, w}, "start worker worker done"},
		{[]any{w, errorEvent{}, w, stepEvent{}}, "worker error"},
		{[]any{startEvent{}, stepEvent{}, checkpointEvent{}, epochEvent{}, errorEvent{}, doneEvent{}}, "start step checkpoint epoch error"},
	} {
		if got := emitAll(t, test.events...); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%T: got %v, want %s", test.events, got, test.want)
		}
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) emit(any) error { return errBroken }

// One sink that fails keeps nothing from the others.
func TestBrokenSink(t *testing.T) {
	var k kept
	e := &runEvents{to: sinks{broken{}, &k}}
	if err := e.emit(startEvent{}); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want %v", err, errBroken)
	}
	if len(k) != 1 {
		t.Errorf("the other sink got %v", k)
	}
}
