package shard

import (
	"fmt"
	"math"
	"strings"

	"github.com/coda-ml/coda/coded"
)

// validUpdate lists everything that is wrong with an update.
func validUpdate(u coded.Update) error {
	var problems []string
	if u.Step < 1 {
		problems = append(problems, "step below 1")
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"learning rate", u.LR}, {"momentum", u.Momentum}, {"weight decay", u.Decay}, {"scale", u.Scale}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) || f.value < 0 {
			problems = append(problems, fmt.Sprintf("%s %v, want a finite number of at least 0", f.name, f.value))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("update of step %d: %s", u.Step, strings.Join(problems, "; "))
	}
	return nil
}
