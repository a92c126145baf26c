package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coda-ml/coda/dist/plan"
)

var convnet = []plan.Layer{
	{Name: "conv1", Kind: plan.Conv2d, In: 1, Out: 32, Weights: 288, First: true},
	{Name: "conv3", Kind: plan.Conv2d, In: 64, Out: 128, Weights: 73728},
	{Name: "fc1", Kind: plan.Linear, In: 1152, Out: 625, Weights: 720000},
	{Name: "fc2", Kind: plan.Linear, In: 625, Out: 10, Weights: 6250},
}

func ExampleChoose() {
	for _, c := range plan.Choose(convnet, plan.Cluster{Workers: 6, K: 4}) {
		fmt.Printf("%s: %s (%s)\n", c.Layer, c.Placement, c.Reason)
	}
	// Output:
	// conv1: local (a convolution's activations outweigh its weights)
	// conv3: local (a convolution's activations outweigh its weights)
	// fc1: resident (720000 weights, any 4 of 6 workers)
	// fc2: local (6250 weights are fewer than 65536)
}

func placed(choices []plan.Choice) string {
	var names []string
	for _, c := range choices {
		if c.Placement == plan.Resident {
			names = append(names, c.Layer)
		}
	}
	return strings.Join(names, " ")
}

func TestAllIgnoresSize(t *testing.T) {
	if got := placed(plan.All(convnet, plan.Cluster{Workers: 6, K: 4})); got != "conv1 conv3 fc1 fc2" {
		t.Errorf("resident layers: %q, want all", got)
	}
}

func TestLayerSmallerThanKStaysLocal(t *testing.T) {
	c := plan.Cluster{Workers: 14, K: 11}
	if got := placed(plan.All(convnet, c)); got != "conv1 conv3 fc1" {
		t.Errorf("resident layers: %q, want all but fc2", got)
	}
	if why := plan.CannotPlace(convnet[3], c); !strings.Contains(why, "11 blocks") {
		t.Errorf("reason %q does not name the number of blocks", why)
	}
}

func TestOnlyAFirstLayerMayHaveFewInputs(t *testing.T) {
	l, c := convnet[0], plan.Cluster{Workers: 6, K: 4}
	l.First = false
	if why := plan.CannotPlace(l, c); !strings.Contains(why, "1 x 32 channels") {
		t.Errorf("reason %q does not name the channels", why)
	}
}

func TestNoWorkersNoPlacement(t *testing.T) {
	if got := placed(plan.All(convnet, plan.Cluster{})); got != "" {
		t.Errorf("resident layers without workers: %q", got)
	}
}
