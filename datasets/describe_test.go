package datasets

import (
	"errors"
	"slices"
	"testing"
)

// No file is needed for the shapes of the public data sets: nothing is there,
// and the network is forbidden.
func TestDescribe(t *testing.T) {
	nothing := Options{Dir: t.TempDir(), Offline: true}
	for name, want := range map[string]struct {
		shape   []int
		classes int
	}{
		"mnist": {[]int{1, 28, 28}, 10}, "fashion-mnist": {[]int{1, 28, 28}, 10}, "synthetic": {[]int{1, 28, 28}, 10},
		"cifar10": {[]int{3, 32, 32}, 10}, "cifar100": {[]int{3, 32, 32}, 100},
	} {
		shape, classes, err := Describe(t.Context(), name, nothing)
		if err != nil || !slices.Equal(shape, want.shape) || classes != want.classes {
			t.Errorf("%s: %v, %d classes, %v; want %v, %d", name, shape, classes, err, want.shape, want.classes)
		}
	}
	if _, _, err := Describe(t.Context(), "imagenet", nothing); !errors.Is(err, ErrUnknown) {
		t.Errorf("another name: error %v, want %v", err, ErrUnknown)
	}
}

func TestDescribeFolder(t *testing.T) {
	if _, _, err := Describe(t.Context(), FolderPrefix+t.TempDir(), Options{}); err == nil {
		t.Error("an empty folder: no error")
	}
}
