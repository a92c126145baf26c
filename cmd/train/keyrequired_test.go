package main

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/coda-ml/coda/dist"
)

// Whoever could be reached from other machines needs a key, and is told how to
// come by one.
func TestKeyIsRequiredOffLoopback(t *testing.T) {
	for _, bind := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		worker := &workerCmd{Name: "w", Bind: bind}
		discard := slog.New(slog.DiscardHandler)
		cluster, joining := joinCluster(t.Context(), clusterOptions{bind: bind, join: []string{"127.0.0.1:1"}})
		for what, err := range map[string]error{
			"worker": worker.serve(t.Context(), terminal{stdout: io.Discard, stderr: io.Discard}, dist.Key{}, &misbehaviour{}, discard),
			"run":    joining,
		} {
			if !errors.Is(err, dist.ErrKeyRequired) || !strings.Contains(err.Error(), "--bind "+bind) || !strings.Contains(err.Error(), "train keygen") {
				t.Errorf("%s on %s: %v, want a refusal that names the address and the remedy", what, bind, err)
			}
		}
		if err := cluster.close(); err != nil {
			t.Error(err)
		}
	}
}
