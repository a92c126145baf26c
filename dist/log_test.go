package dist

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// logBook keeps records as JSON lines.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }

// find returns the first record with a message.
func (b *logBook) find(t *testing.T, message string) map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if record["msg"] == message {
			return record
		}
	}
	t.Fatalf("no record %q in\n%s", message, b.text.String())
	return nil
}

// Both sides' records can be told apart and put together.
func TestLogsNameRunNodeAndStep(t *testing.T) {
	var here, there logBook
	c, err := NewCoordinator(CoordinatorConfig{Slots: 1, Run: "r", Log: here.logger()})
	if err != nil {
		t.Fatal(err)
	}
	cl := &cluster{t: t, net: &network{nodes: map[string]*node{}}, workers: map[string]*testWorker{}, c: c}
	cl.start(0, 1, func(w *WorkerConfig) { w.Log = there.logger() })
	m := newToyModel(toyLayer("fc", coded.Spec{Name: "trigonometric", N: 1, K: 1}, 1, 4, 4), 1)
	cl.place(m)
	cl.train(m, 1, 2)
	tw := cl.workers["worker-1"]
	tw.end()
	receive(t, tw.gone)
	cl.close()
	for message, want := range map[string]map[string]any{
		"worker joined": {"run": "r", "node": "coordinator", "worker": "worker-1", "slot": 0.0, "step": 0.0, "level": "INFO"},
		"worker left":   {"run": "r", "node": "coordinator", "worker": "worker-1", "slot": 0.0, "step": 2.0, "level": "INFO"},
	} {
		compare(t, here.find(t, message), want)
	}
	compare(t, there.find(t, "coordinator connected"), map[string]any{"run": "r", "node": "worker-1", "level": "INFO"})
	compare(t, there.find(t, "coordinator gone"), map[string]any{"run": "r", "node": "worker-1", "step": 2.0, "level": "INFO"})
}

func compare(t *testing.T, record, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if record[name] != value {
			t.Errorf("%v: %s is %v, want %v", record, name, record[name], value)
		}
	}
}

// What costs a worker is a warning.
func TestEventLevels(t *testing.T) {
	for state, want := range map[string]string{
		StateJoined: "INFO", StateLeft: "INFO", StateRepaired: "INFO", StateFailed: "WARN", StateStale: "WARN", StateQuarantined: "WARN",
	} {
		var book logBook
		Event{Worker: "w", State: state, Reason: "r"}.log(book.logger())
		compare(t, book.find(t, "worker "+state), map[string]any{"level": want, "reason": "r"})
	}
}
