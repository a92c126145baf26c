package datasets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Synthetic describes a made-up data set: every class has a pattern of coarse
// light and dark cells, and an image is its class's pattern under noise. The
// classes are easy to tell apart, also for a network with pooling. A zero
// field has the value in its comment.
type Synthetic struct {
	Seed    uint64
	Train   int   // images for training: 2048
	Test    int   // images for testing: 512
	Classes int   // 10
	Shape   []int // channels, height, width: 1, 28, 28
}

const (
	syntheticCell  = 4  // side of a cell of the patterns, in pixels
	syntheticDark  = 64 // level of a dark cell; a light one is 255 less this
	syntheticNoise = 64 // noise is uniform within +-this: no value leaves a byte

	patternStream = 0x70617474 // streams of the random generators
	trainStream   = 0x7472616e
	testStream    = 0x74657374
)

func (s Synthetic) withDefaults() Synthetic {
	for _, f := range []struct {
		field *int
		value int
	}{{&s.Train, 2048}, {&s.Test, 512}, {&s.Classes, 10}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if s.Shape == nil {
		s.Shape = []int{1, 28, 28}
	}
	return s
}

// check rejects what cannot be made. Two classes differ only if there are
// enough cells for different patterns.
func (s Synthetic) check() error {
	size, err := imageSize(s.Shape)
	switch {
	case err != nil:
		return err
	case s.Train < 1 || s.Test < 1 || s.Train > maxPixels/size || s.Test > maxPixels/size:
		return fmt.Errorf("%d and %d images of shape %v, expected positive numbers of at most %d bytes each",
			s.Train, s.Test, s.Shape, maxPixels)
	case s.Classes < 2 || s.Classes > 1<<16:
		return fmt.Errorf("%d classes, expected 2 to %d", s.Classes, 1<<16)
	}
	if cells := s.cells(); cells < 16 && s.Classes > 1<<cells {
		return fmt.Errorf("%d classes, but shape %v has only %d different patterns", s.Classes, s.Shape, 1<<cells)
	}
	return nil
}

// cells returns the number of cells of a pattern.
func (s Synthetic) cells() int {
	up := func(n int) int { return (n + syntheticCell - 1) / syntheticCell }
	return s.Shape[0] * up(s.Shape[1]) * up(s.Shape[2])
}

func loadSynthetic(ctx context.Context, o Options) (train, test *Set, err error) {
	s := o.Synthetic.withDefaults()
	if err := s.check(); err != nil {
		return nil, nil, fmt.Errorf("synthetic: %w", err)
	}
	patterns := s.patterns()
	if train, err = s.split(ctx, "train", s.Train, trainStream, patterns); err != nil {
		return nil, nil, err
	}
	if test, err = s.split(ctx, "test", s.Test, testStream, patterns); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// patterns draws a different pattern for every class, as an image without noise.
func (s Synthetic) patterns() [][]byte {
	r := rand.New(rand.NewPCG(s.Seed, patternStream))
	seen := make(map[string]bool)
	patterns := make([][]byte, 0, s.Classes)
	cells := make([]byte, s.cells())
	for len(patterns) < s.Classes {
		for i := range cells {
			cells[i] = syntheticDark
			if r.Uint64()>>63 == 1 {
				cells[i] = 255 - syntheticDark
			}
		}
		if !seen[string(cells)] {
			seen[string(cells)] = true
			patterns = append(patterns, s.paint(cells))
		}
	}
	return patterns
}

// paint makes an image of cells.
func (s Synthetic) paint(cells []byte) []byte {
	height, width := s.Shape[1], s.Shape[2]
	across := (width + syntheticCell - 1) / syntheticCell
	down := (height + syntheticCell - 1) / syntheticCell
	image := make([]byte, 0, s.Shape[0]*height*width)
	for c := range s.Shape[0] {
		for y := range height {
			for x := range width {
				image = append(image, cells[(c*down+y/syntheticCell)*across+x/syntheticCell])
			}
		}
	}
	return image
}

// split makes one part. The classes follow each other in turn, so that every
// subset is as balanced as it can be.
func (s Synthetic) split(ctx context.Context, name string, n int, stream uint64, patterns [][]byte) (*Set, error) {
	pcg := rand.NewPCG(s.Seed, stream)
	pixels := make([]byte, 0, n*len(patterns[0]))
	labels := make([]uint16, n)
	var bits uint64
	for i := range labels {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("make synthetic/%s: %w", name, context.Cause(ctx))
		}
		class := i % s.Classes
		labels[i] = uint16(class)
		for p, level := range patterns[class] {
			// Eight pixels for each draw; 7 bits of noise for each.
			if p%8 == 0 {
				bits = pcg.Uint64()
			}
			pixels = append(pixels, level-syntheticNoise+byte(bits)>>1)
			bits >>= 8
		}
	}
	half := slices.Repeat([]float32{0.5}, s.Shape[0])
	quarter := slices.Repeat([]float32{0.25}, s.Shape[0])
	return newSet(Contents{
		Name: "synthetic", Split: name, Classes: s.Classes, Shape: s.Shape,
		Mean: half, Std: quarter, Pixels: pixels,
	}, labels)
}
