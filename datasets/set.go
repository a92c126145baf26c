package datasets

import (
	"fmt"
	"math"
	"slices"
)

// maxPixels bounds the bytes of one set, so that a wrong size is an error and
// not the end of the machine's memory.
const maxPixels = 8 << 30

// A Set is one part (train or test) of a data set: labelled images of one
// shape. The images stay in memory as bytes and become normalised float32 when
// a batch is made: a quarter of the memory, and the conversion is a table
// look-up.
//
// A Set does not change once it is made; any number of goroutines may read it.
type Set struct {
	Name       string    // of the data set: "mnist"
	Split      string    // "train" or "test"
	Classes    int       // labels are 0..Classes-1
	ClassNames []string  // one per class
	Shape      []int     // of one image: channels, height, width
	N          int       // images
	Mean, Std  []float32 // per channel, of pixels scaled to [0,1]

	pixels []byte // N images in the order of Shape
	labels []uint16
	tables [][256]float32 // per channel: byte -> normalised value
}

// Contents are the parts from which NewSet makes a Set. Fields of the same
// name mean the same. All but Pixels is copied.
type Contents struct {
	Name, Split string
	Classes     int
	ClassNames  []string // nil: "0", "1", ..
	Shape       []int
	Mean, Std   []float32 // nil: 0 and 1
	Pixels      []byte    // N*C*H*W bytes, image after image; kept
	Labels      []int     // N labels
}

// NewSet makes a set from pixels and labels. It fails when they do not fit
// together.
func NewSet(c Contents) (*Set, error) {
	labels := make([]uint16, len(c.Labels))
	for i, l := range c.Labels {
		if l < 0 || l >= c.Classes || l > math.MaxUint16 {
			return nil, fmt.Errorf("datasets: %s/%s: label of image %d is %d, expected 0 to %d",
				c.Name, c.Split, i, l, c.Classes-1)
		}
		labels[i] = uint16(l)
	}
	s, err := newSet(c, labels)
	if err != nil {
		return nil, fmt.Errorf("datasets: %w", err)
	}
	return s, nil
}

// newSet is NewSet for labels that are known to be in range.
func newSet(c Contents, labels []uint16) (*Set, error) {
	s := &Set{
		Name: c.Name, Split: c.Split, Classes: c.Classes, ClassNames: slices.Clone(c.ClassNames),
		Shape: slices.Clone(c.Shape), N: len(labels), Mean: slices.Clone(c.Mean), Std: slices.Clone(c.Std),
		pixels: c.Pixels, labels: labels,
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	s.complete()
	return s, nil
}

func (s *Set) check() error {
	if s.Classes < 1 {
		return fmt.Errorf("%d classes, expected at least 1", s.Classes)
	}
	if s.ClassNames != nil && len(s.ClassNames) != s.Classes {
		return fmt.Errorf("%d class names for %d classes", len(s.ClassNames), s.Classes)
	}
	if s.N < 1 {
		return fmt.Errorf("no images")
	}
	size, err := imageSize(s.Shape)
	if err != nil {
		return err
	}
	if s.N > maxPixels/size || len(s.pixels) != s.N*size {
		return fmt.Errorf("%d bytes of pixels for %d labels, expected %d bytes for each image of shape %v",
			len(s.pixels), s.N, size, s.Shape)
	}
	if s.Mean != nil && len(s.Mean) != s.Shape[0] || s.Std != nil && len(s.Std) != s.Shape[0] {
		return fmt.Errorf("%d means and %d deviations for %d channels", len(s.Mean), len(s.Std), s.Shape[0])
	}
	for _, sd := range s.Std {
		if !(sd > 0) || math.IsInf(float64(sd), 0) {
			return fmt.Errorf("standard deviation %v, expected a positive number", sd)
		}
	}
	return nil
}

// imageSize returns the number of bytes of an image.
func imageSize(shape []int) (int, error) {
	if len(shape) != 3 {
		return 0, fmt.Errorf("shape %v, expected channels, height and width", shape)
	}
	size := 1
	for _, d := range shape {
		if d < 1 || size > maxPixels/d {
			return 0, fmt.Errorf("shape %v, expected positive sizes of at most %d bytes in all", shape, maxPixels)
		}
		size *= d
	}
	return size, nil
}

// complete fills in what the caller left out and makes the tables.
func (s *Set) complete() {
	channels := s.Shape[0]
	if s.Mean == nil {
		s.Mean = make([]float32, channels)
	}
	if s.Std == nil {
		s.Std = make([]float32, channels)
		for c := range s.Std {
			s.Std[c] = 1
		}
	}
	if s.ClassNames == nil {
		s.ClassNames = make([]string, s.Classes)
		for c := range s.ClassNames {
			s.ClassNames[c] = fmt.Sprint(c)
		}
	}
	s.tables = make([][256]float32, channels)
	for c := range s.tables {
		for b := range s.tables[c] {
			// In float32 and in this order, as torchvision does: same bits.
			s.tables[c][b] = (float32(b)/255 - s.Mean[c]) / s.Std[c]
		}
	}
}

// String returns "name/split".
func (s *Set) String() string { return s.Name + "/" + s.Split }

// ImageSize returns C*H*W, the number of values of an image.
func (s *Set) ImageSize() int { return len(s.pixels) / s.N }

// Label returns the label of image i, 0 <= i < N.
func (s *Set) Label(i int) int { return int(s.labels[i]) }

// Image returns the bytes of image i, 0 <= i < N, in the order of Shape. They
// are borrowed: do not change them.
func (s *Set) Image(i int) []byte {
	size := s.ImageSize()
	return s.pixels[i*size : (i+1)*size : (i+1)*size]
}

// BatchTo writes the normalised images named by index to x, of shape
// [len(index),C,H,W], and their labels to labels. It allocates nothing.
func (s *Set) BatchTo(x []float32, labels []int32, index []int) error {
	size := s.ImageSize()
	if len(x) != len(index)*size || len(labels) != len(index) {
		return fmt.Errorf("datasets: %s: batch of %d images: room for %d values and %d labels, expected %d and %d",
			s, len(index), len(x), len(labels), len(index)*size, len(index))
	}
	for i, j := range index {
		if j < 0 || j >= s.N {
			return fmt.Errorf("datasets: %s: image %d does not exist, expected 0 to %d", s, j, s.N-1)
		}
		s.normalise(x[i*size:(i+1)*size], s.Image(j))
		labels[i] = int32(s.labels[j])
	}
	return nil
}

func (s *Set) normalise(dst []float32, src []byte) {
	plane := len(src) / len(s.tables)
	for c := range s.tables {
		table, in, out := &s.tables[c], src[c*plane:(c+1)*plane], dst[c*plane:(c+1)*plane]
		for p, b := range in {
			out[p] = table[b]
		}
	}
}

// Subset returns the first n images as a set that shares their memory.
func (s *Set) Subset(n int) (*Set, error) {
	if n < 1 || n > s.N {
		return nil, fmt.Errorf("datasets: %s: subset of %d images, expected 1 to %d", s, n, s.N)
	}
	sub := *s
	sub.N, sub.labels, sub.pixels = n, s.labels[:n], s.pixels[:n*s.ImageSize()]
	return &sub, nil
}
