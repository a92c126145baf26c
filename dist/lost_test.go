package dist

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Workers that come back as new processes have lost their shards: when the rest
// is too few, nobody is waited for, and the layer can be placed anew.
func TestShardsLostForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Wait: time.Hour})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 3)
		dead := []string{"worker-2", "worker-3", "worker-5"}
		for _, name := range dead {
			cl.kill(name)
		}
		done := make(chan error)
		go func() {
			_, err := cl.trainStep(m, 4)
			done <- err
		}()
		synctest.Wait()
		begin := time.Now()
		for i, name := range dead {
			select {
			case err := <-done:
				t.Fatalf("with %d of the dead back: %v", i, err)
			default:
			}
			cl.add(name) // those that are still away might bring their shards back
			synctest.Wait()
		}
		err := <-done
		var few *coded.TooFewError
		if !errors.As(err, &few) || few.Step != 4 || few.Layer != "fc1" || few.Have != 3 || few.Need != 4 {
			t.Fatalf("error is %v, want 3 of 4 workers of fc1 at step 4", err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("shards that nobody has were waited for %v", took)
		}
		if !slices.Contains(few.Missing, "worker-2 (has no shard of the layer)") {
			t.Errorf("missing are %q", few.Missing)
		}
		cl.place(m)
		cl.train(m, 1, 5)
	})
}
