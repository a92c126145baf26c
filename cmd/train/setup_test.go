package main

import (
	"testing"

	"github.com/coda-ml/coda/datasets"
)

func TestAugmentation(t *testing.T) {
	for _, test := range []struct {
		dataset, list string
		want          datasets.Augment
	}{
		{"mnist", "auto", datasets.Augment{}},
		{"cifar10", "auto", datasets.Augment{Pad: 4, Flip: true}},
		{"cifar10", "none", datasets.Augment{}},
		{"mnist", "crop=2,reflect", datasets.Augment{Pad: 2, Reflect: true}},
		{"cifar10", "crop,alternate", datasets.Augment{Pad: 4, Alternate: true}},
		{"mnist", "crop,cutout", datasets.Augment{Pad: 4, Cutout: 16}},
	} {
		got, err := (&runFlags{Dataset: test.dataset, Augment: test.list}).augmentation()
		if err != nil || got != test.want {
			t.Errorf("%s, %s: %+v, %v; want %+v", test.dataset, test.list, got, err, test.want)
		}
	}
	for _, list := range []string{"crop,rotate", "crop=", "crop=-1", "flip=2", "crop=4px"} {
		if _, err := (&runFlags{Augment: list}).augmentation(); err == nil {
			t.Errorf("%s: no error", list)
		}
	}
}
