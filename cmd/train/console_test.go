package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coda-ml/coda/dist"
)

// story is what a run of 1200 steps tells, with one worker that goes and comes.
func story() []any {
	config := &runFlags{Model: "convnet", Dataset: "mnist", Batch: 64, Accumulate: 2, Optimizer: "sgd", LR: 0.01, Seed: 7, Out: "runs/a"}
	events := []any{
		startEvent{Event: "start", Config: config, Workers: []string{"worker-1", "", "worker-3"}, Steps: 1200,
			Layers: []layerInfo{
				{Layer: "fc1", Placement: "resident", Code: "trigonometric", N: 3, K: 2, Reason: "720000 weights, any 2 of 3 workers"},
				{Layer: "fc2", Placement: "local", Reason: "6250 weights are fewer than 65536"},
			}},
		workerEvent{Event: "worker", Worker: "worker-1", State: dist.StateJoined},
		workerEvent{Event: "worker", Worker: "worker-3", State: dist.StateJoined},
	}
	for step := 1; step <= 1200; step++ {
		switch step {
		case 60:
			events = append(events, workerEvent{Event: "worker", Worker: "worker-3", State: dist.StateFailed, Step: 59, Reason: "connection closed by the worker"})
		case 90:
			events = append(events, workerEvent{Event: "worker", Worker: "worker-3", State: dist.StateJoined, Step: 89})
		}
		events = append(events, stepEvent{Event: "step", Step: step, Loss: 0.25, StepMS: 30.25, Answered: []int{1, 3}, Needed: 2})
	}
	return append(events,
		epochEvent{Event: "epoch", Epoch: 1, Step: 1200, Loss: 0.5, TestLoss: 0.25, TestAccuracy: 0.9875, ImagesPerS: 1500.4},
		checkpointEvent{Event: "checkpoint", Path: "runs/a/checkpoints/step-00001200", Step: 1200, Why: "end of epoch 1"},
		doneEvent{Event: "done", TestAccuracy: 0.9875, Steps: 1200, Seconds: 61.25, ImagesPerS: 1500.4, BytesOut: 1_500_000, BytesIn: 999, WastedWork: 0.125})
}

// What the story says away from a terminal. Joins that the start lists are not repeated.
const storyHead = `convnet on mnist: 1200 steps of 128 images, sgd, lr 0.01, seed 7
  fc1      resident, trigonometric code: 720000 weights, any 2 of 3 workers
  fc2      local: 6250 weights are fewer than 65536
  workers  worker-1, (none yet), worker-3
  files    runs/a
step 59: worker-3 failed (connection closed by the worker)
step 89: worker-3 joined
step 100/1200: loss 0.2500, 30.2 ms, 1 3 answered (2 needed)
`

const storyTail = `step 1200/1200: loss 0.2500, 30.2 ms, 1 3 answered (2 needed)
epoch 1: loss 0.5000, test loss 0.2500, test accuracy 98.75 %, 1500 images/s
step 1200: checkpoint runs/a/checkpoints/step-00001200 (end of epoch 1)
test accuracy 98.75 % after 1200 steps in 61.2 s (1500 images/s)
sent 1.5 MB, received 999 B, 12 % of the workers' work was not needed
`

func tell(t *testing.T, columns int, events []any) string {
	t.Helper()
	out := &bytes.Buffer{}
	c := newConsole(out, columns, 1200)
	for _, e := range events {
		if err := c.emit(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestConsolePlain(t *testing.T) {
	for _, columns := range []int{0, 40} { // a bar needs more than 40 columns
		got := tell(t, columns, story())
		if !strings.HasPrefix(got, storyHead) || !strings.HasSuffix(got, storyTail) {
			t.Errorf("%d columns: the console said\n%s\nwant\n%s...\n%s", columns, got, storyHead, storyTail)
		}
		if n := strings.Count(got, "answered"); n != 12 {
			t.Errorf("%d columns: %d lines of steps, want 12", columns, n)
		}
	}
}

// screen plays what is written to a terminal: \r goes back to the line's start
// and what follows covers what was there.
func screen(t *testing.T, text string, columns int) string {
	t.Helper()
	var out strings.Builder
	for _, line := range strings.SplitAfter(text, "\n") {
		var row []rune
		for _, part := range strings.Split(strings.TrimSuffix(line, "\n"), "\r") {
			if n := utf8.RuneCountInString(part); strings.Contains(part, "%") && n > columns {
				t.Errorf("%d columns: %q", n, part)
			}
			r := []rune(part)
			row = append(r, row[min(len(r), len(row)):]...)
		}
		out.WriteString(strings.TrimRight(string(row), " "))
		if strings.HasSuffix(line, "\n") {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// On a terminal the bar leaves nothing behind, and room for an echoed ^C.
func TestConsoleBar(t *testing.T) {
	raw := tell(t, 80, story())
	if !strings.Contains(raw, "step 1/1200, loss 0.2500, 2 answered   0% |") {
		t.Errorf("no bar in %q", raw)
	}
	var want strings.Builder
	for _, line := range strings.SplitAfter(storyHead+storyTail, "\n") {
		if !strings.Contains(line, "needed)") {
			want.WriteString(line)
		}
	}
	if got := screen(t, raw, 78); got != want.String() {
		t.Errorf("the screen shows\n%s\nwant\n%s", got, want.String())
	}
}

// The line that tells an error on standard error does not hang behind a bar.
func TestConsoleBarIsGoneAtAnError(t *testing.T) {
	raw := tell(t, 80, append(story()[:20], errorEvent{"error", "the disk is full"}))
	if got := screen(t, raw, 78); !strings.HasSuffix(got, "\n") {
		t.Errorf("the screen ends with %q", got)
	}
}

func TestConsoleShortRun(t *testing.T) {
	for total, want := range map[int]int{1: 1, 9: 1, 40: 4, 999: 99, 5000: 100} {
		if got := (&console{total: total}).every(); got != want {
			t.Errorf("%d steps: a line every %d, want %d", total, got, want)
		}
	}
}

// Where workers have several seats each is listed once, and what is needed are shards.
func TestConsoleSeats(t *testing.T) {
	said := tell(t, 0, []any{
		startEvent{Event: "start", Config: &runFlags{}, Workers: []string{"worker-1", "worker-2", "worker-1/2", "worker-2/2"}},
		stepEvent{Event: "step", Step: 100, Answered: []int{1, 2}, Needed: 3},
	})
	for _, want := range []string{"\n  workers  worker-1, worker-2\n", ", 1 2 answered (3 shards needed)\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("said %q, want it to have %q", said, want)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1_234_567: "1.2 MB", 5e9: "5.0 GB", 7e15: "7000.0 TB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
