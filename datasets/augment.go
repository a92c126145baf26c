package datasets

import (
	"errors"
	"fmt"
	"math/bits"
)

// Augment says how the images of a training set are varied, every time anew:
// first the crop, then the flip, then normalisation, then the cutout. The zero
// value changes nothing.
//
// What happens to an image depends on the loader's Seed, the epoch and the
// image's place in the epoch's order (for alternate flips, in the set), and on
// nothing else.
type Augment struct {
	// Pad surrounds the image by this many black pixels on each side and
	// crops at random to the old size: torchvision's RandomCrop with padding.
	Pad int
	// Reflect surrounds it by its own mirror image in place of black, without
	// doubling the pixels at the edge: padding_mode "reflect" there.
	Reflect bool
	// Flip mirrors left and right with probability 1/2.
	Flip bool
	// Alternate flips each image in every second epoch, half of them in the
	// odd ones, in place of Flip's independent draws: two epochs in a row show
	// both sides of every image (Jordan, "94% on CIFAR-10 in 3.29 Seconds on
	// a Single GPU", 2024, section 3.6).
	Alternate bool
	// Cutout sets a square of this side to the mean, centred on a random
	// pixel, its part outside the image left off (DeVries and Taylor,
	// "Improved Regularization of Convolutional Neural Networks with Cutout",
	// 2017, section 3.2).
	Cutout int
}

// check rejects what cannot be done to images of a shape.
func (a Augment) check(shape []int) error {
	side := min(shape[1], shape[2])
	if a.Pad < 0 || a.Pad >= side {
		return fmt.Errorf("crop with padding of %d pixels of images of %s, expected 0 to %d", a.Pad, times(shape[1:]), side-1)
	}
	if a.Flip && a.Alternate {
		return errors.New("flips at random and in every second epoch: choose one")
	}
	if a.Cutout < 0 || a.Cutout > side {
		return fmt.Errorf("cutout of %d pixels from images of %s, expected 0 to %d", a.Cutout, times(shape[1:]), side)
	}
	return nil
}

// augmentation is what happens to one image.
type augmentation struct {
	down, right int  // the crop begins here, relative to the image: -Pad..Pad
	flip        bool // after the crop
	cutY, cutX  int  // centre of the cutout, in the result
}

// draw makes the choices for an image at a place of the order of an epoch. Every
// choice has its own number, whether it is used or not, so that turning one on
// does not change the others.
func (a Augment) draw(seed uint64, epoch, place, image int, shape []int) augmentation {
	r := newDraws(seed, augmentStream, uint64(epoch), uint64(place))
	v := augmentation{
		down:  r.below(2*a.Pad+1) - a.Pad,
		right: r.below(2*a.Pad+1) - a.Pad,
		flip:  r.below(2) == 1 && a.Flip,
		cutY:  r.below(shape[1]),
		cutX:  r.below(shape[2]),
	}
	if a.Alternate {
		first := newDraws(seed, alternateStream, uint64(image))
		v.flip = (first.below(2)+epoch)%2 == 1
	}
	return v
}

// augment writes the image i, varied and normalised, to dst. It reads every
// byte once: cropping and flipping cost no pass of their own.
func (s *Set) augment(dst []float32, i int, a Augment, v augmentation) {
	src := s.Image(i)
	height, width := s.Shape[1], s.Shape[2]
	for c := range s.tables {
		table := &s.tables[c]
		out, in := dst[c*height*width:][:height*width], src[c*height*width:][:height*width]
		for y := range height {
			row := out[y*width:][:width]
			from := y + v.down
			if a.Reflect {
				reflectRow(row, in[reflect(from, height)*width:][:width], table, v.right, v.flip)
			} else if from >= 0 && from < height {
				cropRow(row, in[from*width:][:width], table, v.right, v.flip)
			} else {
				fill(row, table[0])
			}
		}
		if a.Cutout > 0 {
			cutout(out, height, width, a.Cutout, v.cutY, v.cutX)
		}
	}
}

// cropRow writes dst[x] = table[src[x+right]], black where src has no such
// pixel, or the mirror image of that.
func cropRow(dst []float32, src []byte, table *[256]float32, right int, flip bool) {
	width := len(src)
	src = src[max(0, right):min(width, width+right)]
	before := max(0, -right) // black pixels on the left, and on the right:
	after := width - before - len(src)
	if flip {
		before, after = after, before
	}
	fill(dst[:before], table[0])
	fill(dst[width-after:], table[0])
	dst = dst[before:][:len(src)]
	if flip {
		for i, b := range src {
			dst[len(dst)-1-i] = table[b]
		}
		return
	}
	for i, b := range src {
		dst[i] = table[b]
	}
}

// reflectRow writes dst[x] = table[src[x+right]], src reflected at its ends, or
// the mirror image of that.
func reflectRow(dst []float32, src []byte, table *[256]float32, right int, flip bool) {
	width := len(src)
	for x := range dst {
		from := x
		if flip {
			from = width - 1 - x
		}
		dst[x] = table[src[reflect(from+right, width)]]
	}
}

// reflect returns the place in 0..n-1 that i has the value of, for i from 1-n to
// 2n-2.
func reflect(i, n int) int {
	if i < 0 {
		return -i
	}
	return n - 1 - abs(n-1-i)
}

func abs(i int) int {
	return max(i, -i)
}

// cutout sets a square of a plane to 0, the mean of normalised pixels.
func cutout(plane []float32, height, width, side, y, x int) {
	top, left := y-side/2, x-side/2
	bottom, right := min(top+side, height), min(left+side, width)
	left = max(left, 0)
	for y := max(top, 0); y < bottom; y++ {
		clear(plane[y*width+left : y*width+right])
	}
}

func fill(dst []float32, v float32) {
	for i := range dst {
		dst[i] = v
	}
}

// The streams keep the augmentation, and which epochs flip an image, apart from
// what else is drawn from the same seed.
const (
	augmentStream   = 0x6175676d656e74
	alternateStream = 0x616c7465726e61
)

// draws is a source of random numbers that is cheap to begin anew for every
// image: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom
// Number Generators", 2014), begun at a hash of what names the image. It is
// written out for the same reason as shuffle.
type draws uint64

func newDraws(key ...uint64) draws {
	var h uint64
	for _, k := range key {
		h = mix64((h ^ k) + goldenGamma)
	}
	return draws(h)
}

const goldenGamma = 0x9e3779b97f4a7c15

// mix64 is the finaliser of SplitMix64, a bijection.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0..n-1, uniformly but for a bias of n/2^64.
func (d *draws) below(n int) int {
	*d += goldenGamma
	hi, _ := bits.Mul64(mix64(uint64(*d)), uint64(n))
	return int(hi)
}
