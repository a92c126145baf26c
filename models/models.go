package models

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/coda-ml/coda/nn"
)

// builder makes a model for samples of a shape, its parameters drawn from rng.
type builder func(classes int, input []int, rng *rand.Rand) (nn.Module, error)

var builders = map[string]builder{
	"mlp":     func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewMLP(c, in, r) },
	"lenet":   func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewLeNet(c, in, r) },
	"convnet": func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewConvnet(c, in, r) },

	"vgg-small": func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewSmallVGG(c, in, r) },
	"vgg11":     vgg(VGGConfig{Stages: vgg11}),
	"vgg11-bn":  vgg(VGGConfig{Stages: vgg11, BatchNorm: true}),
	"vgg13":     vgg(VGGConfig{Stages: vgg13}),
	"vgg13-bn":  vgg(VGGConfig{Stages: vgg13, BatchNorm: true}),
	"vgg16":     vgg(VGGConfig{Stages: vgg16}),
	"vgg16-bn":  vgg(VGGConfig{Stages: vgg16, BatchNorm: true}),

	"resnet20": cifarResNet(3),
	"resnet32": cifarResNet(5),
	"resnet56": cifarResNet(9),
	"resnet18": resNet([4]int{2, 2, 2, 2}, false),
	"resnet34": resNet([4]int{3, 4, 6, 3}, false),
	"resnet50": resNet([4]int{3, 4, 6, 3}, true),
}

var (
	vgg11 = [5]int{1, 1, 2, 2, 2}
	vgg13 = [5]int{2, 2, 2, 2, 2}
	vgg16 = [5]int{2, 2, 3, 3, 3}
)

func vgg(config VGGConfig) builder {
	return func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewVGG(config, c, in, r) }
}

func cifarResNet(blocks int) builder {
	return func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewCIFARResNet(blocks, c, in, r) }
}

func resNet(blocks [4]int, bottleneck bool) builder {
	return func(c int, in []int, r *rand.Rand) (nn.Module, error) { return NewResNet(blocks, bottleneck, c, in, r) }
}

// Names returns the names that New knows, sorted.
func Names() []string {
	names := make([]string, 0, len(builders))
	for name := range builders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New makes a model by name for a number of classes and the shape of one
// sample ([1, 28, 28]), its parameters drawn from rng.
func New(name string, classes int, inputShape []int, rng *rand.Rand) (nn.Module, error) {
	b, ok := builders[name]
	if !ok {
		return nil, fmt.Errorf("models: unknown model %q; known are: %s", name, strings.Join(Names(), ", "))
	}
	if classes < 2 {
		return nil, fmt.Errorf("models: %s: %d classes, want at least 2", name, classes)
	}
	if len(inputShape) == 0 || slices.Min(inputShape) < 1 {
		return nil, fmt.Errorf("models: %s: input shape %v, want positive dimensions", name, inputShape)
	}
	if rng == nil {
		return nil, fmt.Errorf("models: %s: no random generator", name)
	}
	m, err := b(classes, inputShape, rng)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// image takes a shape [channels, height, width] apart and checks that there
// is something left after its sides have been halved.
func image(model string, shape []int, halvings int) (channels, height, width int, err error) {
	least := 1 << halvings
	if len(shape) != 3 || shape[1] < least || shape[2] < least {
		return 0, 0, 0, fmt.Errorf("models: %s: input shape %v, want [channels, height, width] of at least %dx%d", model, shape, least, least)
	}
	return shape[0], shape[1], shape[2], nil
}
