package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// decode decodes all images, which must have the size of the first one. If all
// of them are grey there is one channel, otherwise three. Mean and deviation
// are those of the training images.
func (d *imageFolder) decode(ctx context.Context) (train, test *Set, err error) {
	if len(d.test) == 0 {
		return nil, nil, &FileError{Path: d.root, Problem: "no images for testing", Kind: ErrFormat,
			Found: fmt.Sprintf("one image in each of %d classes", len(d.classes)), Want: "a class with two, or a folder test/"}
	}
	all := make([]labelled, 0, len(d.train)+len(d.test))
	all = append(append(all, d.train...), d.test...)
	shape, err := commonShape(ctx, all)
	if err != nil {
		return nil, nil, err
	}
	size := shape[0] * shape[1] * shape[2]
	if size > maxPixels/len(all) {
		return nil, nil, all[0].fail(ErrFormat, "images too large", fmt.Sprintf("%d images of %s", len(all), times(shape)),
			fmt.Sprintf("at most %d bytes decoded", int64(maxPixels)))
	}
	pixels, labels := make([]byte, len(all)*size), make([]uint16, len(all))
	err = parallel(ctx, len(all), func(i int) error {
		labels[i] = uint16(all[i].class)
		return decodeImage(all[i].imageFile, pixels[i*size:(i+1)*size], shape)
	})
	if err != nil {
		return nil, nil, err
	}
	n := len(d.train)
	mean, std := moments(pixels[:n*size], shape)
	part := func(name string, from, to int) (*Set, error) {
		return newSet(Contents{
			Name: FolderPrefix + d.root, Split: name, Classes: len(d.classes), ClassNames: d.classes, Shape: shape,
			Mean: mean, Std: std, Pixels: pixels[from*size : to*size : to*size],
		}, labels[from:to:to])
	}
	if train, err = part("train", 0, n); err != nil {
		return nil, nil, err
	}
	if test, err = part("test", n, len(all)); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// commonShape reads the sizes of all images before memory is taken for their
// pixels.
func commonShape(ctx context.Context, files []labelled) ([]int, error) {
	first, err := configOf(files[0].imageFile)
	if err != nil {
		return nil, err
	}
	var coloured atomic.Bool
	err = parallel(ctx, len(files), func(i int) error {
		c, err := configOf(files[i].imageFile)
		if err != nil {
			return err
		}
		if c.Width != first.Width || c.Height != first.Height {
			return files[i].fail(ErrFormat, "wrong image size", pixelSize(c),
				fmt.Sprintf("%s (width x height), as %s", pixelSize(first), files[0].name))
		}
		if !isGrey(c.ColorModel) {
			coloured.Store(true)
		}
		return nil
	})
	channels := 1
	if coloured.Load() {
		channels = 3
	}
	return []int{channels, first.Height, first.Width}, err
}

func pixelSize(c image.Config) string { return fmt.Sprintf("%dx%d", c.Width, c.Height) }

func isGrey(m color.Model) bool { return m == color.GrayModel || m == color.Gray16Model }

// format is what can be done with the file of an image.
type format struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// formatOf tells the format by the first bytes.
func formatOf(f imageFile, data []byte) (format, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xd8}):
		return format{jpeg.DecodeConfig, jpeg.Decode}, nil
	case bytes.HasPrefix(data, []byte("\x89PNG")):
		return format{png.DecodeConfig, png.Decode}, nil
	case len(data) == 0:
		return format{}, f.fail(ErrTruncated, "truncated", "an empty file", "a JPEG or PNG image")
	}
	return format{}, f.fail(ErrFormat, "not an image", fmt.Sprintf("% x at the start", data[:min(len(data), 4)]), "a JPEG or PNG image")
}

func configOf(f imageFile) (image.Config, error) {
	data, err := f.content()
	if err != nil {
		return image.Config{}, err
	}
	format, err := formatOf(f, data)
	if err != nil {
		return image.Config{}, err
	}
	c, err := format.config(bytes.NewReader(data))
	if err != nil {
		return c, f.damaged(err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxPixels/c.Height/3 {
		return c, f.fail(ErrFormat, "impossible image size", pixelSize(c), fmt.Sprintf("positive sizes of at most %d bytes in all", int64(maxPixels)))
	}
	return c, nil
}

func (f imageFile) damaged(err error) error {
	kind, problem := ErrFormat, "damaged image"
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		kind, problem = ErrTruncated, "truncated image"
	}
	return f.fail(kind, problem, err.Error(), "a whole JPEG or PNG image")
}

// decodeImage writes the pixels of an image of the given shape to dst, channel
// after channel.
func decodeImage(f imageFile, dst []byte, shape []int) error {
	data, err := f.content()
	if err != nil {
		return err
	}
	format, err := formatOf(f, data)
	if err != nil {
		return err
	}
	img, err := format.decode(bytes.NewReader(data))
	if err != nil {
		return f.damaged(err)
	}
	// A file on disk may have changed since its size was read.
	if b := img.Bounds(); b.Dx() != shape[2] || b.Dy() != shape[1] || shape[0] == 1 && !isGrey(img.ColorModel()) {
		return f.fail(ErrFormat, "changed while it was read", fmt.Sprintf("%dx%d", b.Dx(), b.Dy()), fmt.Sprintf("%dx%d", shape[2], shape[1]))
	}
	toPlanes(dst, img, shape)
	return nil
}

// moments returns mean and deviation of each channel, of pixels scaled to
// [0,1]. A channel of one value has the deviation 1.
func moments(pixels []byte, shape []int) (mean, std []float32) {
	channels, plane := shape[0], shape[1]*shape[2]
	counts := make([][256]int, channels)
	for i := 0; i < len(pixels); i += plane {
		count := &counts[i/plane%channels]
		for _, b := range pixels[i : i+plane] {
			count[b]++
		}
	}
	for c := range counts {
		var n, sum, squares float64 // exact: integers below 2^53
		for b, k := range counts[c] {
			n, sum, squares = n+float64(k), sum+float64(k*b), squares+float64(k*b*b)
		}
		m := sum / n
		s := math.Sqrt(max(squares/n-m*m, 0))
		if s == 0 {
			s = 255
		}
		mean, std = append(mean, float32(m/255)), append(std, float32(s/255))
	}
	return mean, std
}

// parallel calls do for 0..n-1 on all processors. After an error no further
// call begins, and since they begin in order, the error returned, the one of
// the lowest number, is always the same.
func parallel(ctx context.Context, n int, do func(i int) error) error {
	var (
		next  atomic.Int64
		stop  atomic.Bool
		mu    sync.Mutex
		at    = n // of the error
		first error
		group sync.WaitGroup
	)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for !stop.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					stop.Store(true)
					mu.Lock()
					if i < at {
						at, first = i, err
					}
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if first == nil && ctx.Err() != nil {
		return fmt.Errorf("decode images: %w", context.Cause(ctx))
	}
	return first
}
