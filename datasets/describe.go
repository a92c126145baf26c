package datasets

import (
	"context"
	"slices"
)

// Describe returns the shape of the images of a data set (channels, height,
// width) and the number of its classes. Only those of "folder:PATH" are read.
func Describe(ctx context.Context, name string, o Options) (shape []int, classes int, err error) {
	const idxClasses = 10
	switch name {
	case mnist.name, fashionMNIST.name:
		return slices.Clone(mnist.shape), idxClasses, nil
	case cifar10.name, cifar100.name:
		c := cifar10
		if name == cifar100.name {
			c = cifar100
		}
		return slices.Clone(c.shape), len(c.classNames), nil
	}
	train, _, err := Load(ctx, name, o)
	if err != nil {
		return nil, 0, err
	}
	return train.Shape, train.Classes, nil
}
