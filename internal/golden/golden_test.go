package golden_test

import (
	"slices"
	"testing"

	"github.com/coda-ml/coda/internal/golden"
)

// TestEveryFileIsRead checks the reader of safetensors on files that another
// program wrote: one tensor of each type, by values that are known.
func TestEveryFileIsRead(t *testing.T) {
	cases := golden.Read(t, "*")
	if len(cases) != 63 {
		t.Errorf("%d golden files, want 63", len(cases))
	}
	for _, c := range cases {
		if len(c.Names()) == 0 {
			t.Errorf("%s is empty", c.Name)
		}
		c.Settings(new(map[string]any))
	}
	schedule := golden.Read(t, "schedule_step")[0]
	if lr := schedule.Float64s("lr"); len(lr) != 20 || lr[0] != 0.1 || schedule.Setting("base_lr") != 0.1 {
		t.Errorf("learning rates %v", lr)
	}
	loss := golden.Read(t, "cross_entropy_scale1_smooth0")[0]
	if !slices.Equal(loss.Shape("x"), []int{6, 10}) || len(loss.Labels("target")) != 6 || len(loss.Shape("loss")) != 0 {
		t.Errorf("shapes %v, %v, %v", loss.Shape("x"), loss.Labels("target"), loss.Shape("loss"))
	}
	if x := loss.Floats("x"); len(x) != 60 || slices.Max(loss.Labels("target")) > 9 || slices.Max(x) > 5 {
		t.Errorf("logits %v, labels %v", x, loss.Labels("target"))
	}
}
