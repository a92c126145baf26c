package models_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

// stateOf lists a model's state as "name shape" and counts its parameters.
func stateOf(t *testing.T, m nn.Module) (list []string, params int) {
	t.Helper()
	state, err := nn.State(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range state {
		switch {
		case v.Param != nil:
			params += v.Param.Size()
			list = append(list, fmt.Sprint(v.Name, v.Param.Value.Shape))
		case v.Buffer != nil:
			list = append(list, fmt.Sprint(v.Name, v.Buffer.Value.Shape))
		default:
			list = append(list, v.Name)
		}
	}
	return list, params
}

// TestResNetState: sizes are torchvision's for 1000 classes, or those that He
// et al. give for small images plus the convolutions of two shortcuts; so are
// the number of entries of the state dictionaries, and the names.
func TestResNetState(t *testing.T) {
	for name, want := range map[string]struct {
		classes, params, entries int
		some                     []string
	}{
		"resnet20": {10, 272474, 128, []string{"layer2.0.shortcut.0.weight[32 16 1 1]", "layer3.2.bn2.running_var[64]", "layer1.0.bn1.num_batches_tracked"}},
		"resnet32": {10, 466906, 200, []string{"layer3.4.conv2.weight[64 64 3 3]"}},
		"resnet56": {10, 855770, 344, []string{"layer3.8.conv2.weight[64 64 3 3]"}},
		"resnet18": {1000, 11689512, 122, []string{
			"conv1.weight[64 3 7 7]", "layer2.0.bn1.running_mean[128]", "layer2.0.downsample.0.weight[128 64 1 1]",
			"layer4.1.bn2.num_batches_tracked", "fc.bias[1000]",
		}},
		"resnet34": {1000, 21797672, 218, []string{"layer3.5.conv2.weight[256 256 3 3]"}},
		"resnet50": {1000, 25557032, 320, []string{
			"layer1.0.downsample.1.running_var[256]", "layer3.5.conv3.weight[1024 256 1 1]", "layer4.0.conv2.weight[512 512 3 3]", "fc.weight[1000 2048]",
		}},
	} {
		m, err := models.New(name, want.classes, []int{3, 224, 224}, rng(1))
		if err != nil {
			t.Fatal(err)
		}
		list, params := stateOf(t, m)
		if params != want.params || len(list) != want.entries {
			t.Errorf("%s: %d parameters in a state of %d, want %d in %d", name, params, len(list), want.params, want.entries)
		}
		for _, entry := range want.some {
			if !slices.Contains(list, entry) {
				t.Errorf("%s: no %s in its state", name, entry)
			}
		}
	}
}

// TestVGGState: the sizes of the convolutions are those of torchvision's
// models; so are the names. Hidden layers of one unit save half a gigabyte.
func TestVGGState(t *testing.T) {
	for _, c := range []struct {
		stages   [5]int
		norm     bool
		features int
		some     []string
	}{
		{[5]int{1, 1, 2, 2, 2}, false, 9220480, []string{"features.18.weight[512 512 3 3]", "classifier.6.bias[1000]"}},
		{[5]int{1, 1, 2, 2, 2}, true, 9220480 + 2*2752, []string{"features.25.weight[512 512 3 3]", "features.26.running_mean[512]"}},
		{[5]int{2, 2, 2, 2, 2}, false, 9404992, []string{"features.22.bias[512]", "classifier.0.weight[1 25088]"}},
		{[5]int{2, 2, 3, 3, 3}, false, 14714688, []string{"features.0.weight[64 3 3 3]", "features.28.weight[512 512 3 3]", "classifier.3.weight[1 1]"}},
	} {
		m, err := models.NewVGG(models.VGGConfig{Stages: c.stages, BatchNorm: c.norm, Hidden: 1}, 1000, []int{3, 224, 224}, rng(1))
		if err != nil {
			t.Fatal(err)
		}
		list, params := stateOf(t, m)
		if want := c.features + 25088 + 1 + 1 + 1 + 1000 + 1000; params != want {
			t.Errorf("%v: %d parameters, want %d", c.stages, params, want)
		}
		for _, entry := range c.some {
			if !slices.Contains(list, entry) {
				t.Errorf("%v: no %s in its state", c.stages, entry)
			}
		}
	}
	m, err := models.New("vgg-small", 10, []int{3, 32, 32}, rng(1))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := stateOf(t, m)
	for _, entry := range []string{"0.weight[64 3 3 3]", "1.num_batches_tracked", "19.running_var[512]", "23.weight[512 2048]", "25.bias[10]"} {
		if !slices.Contains(list, entry) {
			t.Errorf("vgg-small: no %s in its state %q", entry, list)
		}
	}
}

// TestVGGRuns on an image that the average of 7x7 has to be stretched for, and
// on one for which it does nothing.
func TestVGGRuns(t *testing.T) {
	c := models.VGGConfig{Stages: [5]int{1, 1, 1, 1, 1}, BatchNorm: true, Hidden: 3, Dropout: 0.1}
	for _, side := range []int{32, 224} {
		shape := []int{1, side, side}
		m, err := models.NewVGG(c, 3, shape, rng(1))
		if err != nil {
			t.Fatal(err)
		}
		net := networkFor(t, m, shape, nn.Config{Threads: 2})
		if _, _, err := net.Train(t.Context(), 1, make([]float32, 2*side*side), []int32{0, 2}); err != nil {
			t.Error(err)
		}
	}
	c.Hidden = -1
	if _, err := models.NewVGG(c, 3, []int{1, 32, 32}, rng(1)); err == nil {
		t.Error("-1 hidden units are taken")
	}
}
