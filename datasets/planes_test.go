package datasets

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
	"testing"
)

// imagesOfEveryKind are images of 3x2 pixels in every form that a file may decode to.
func imagesOfEveryKind() map[string]image.Image {
	r := image.Rect(0, 0, 3, 2)
	ycbcr := image.NewYCbCr(r, image.YCbCrSubsampleRatio420)
	for i := range ycbcr.Y {
		ycbcr.Y[i] = byte(40 * i)
	}
	for i := range ycbcr.Cb {
		ycbcr.Cb[i], ycbcr.Cr[i] = byte(90+i), byte(200-i)
	}
	images := map[string]image.Image{"YCbCr": ycbcr}
	palette := color.Palette{color.NRGBA{1, 2, 3, 255}, color.NRGBA{200, 100, 50, 255}}
	drawn := map[string]interface {
		image.Image
		Set(x, y int, c color.Color)
	}{
		"RGBA": image.NewRGBA(r), "NRGBA": image.NewNRGBA(r), "RGBA64": image.NewRGBA64(r), "NRGBA64": image.NewNRGBA64(r),
		"Gray": image.NewGray(r), "Gray16": image.NewGray16(r), "Paletted": image.NewPaletted(r, palette), "CMYK": image.NewCMYK(r),
	}
	for name, img := range drawn {
		for i := range 6 {
			img.Set(i%3, i/3, color.NRGBA{byte(40 * i), byte(255 - 30*i), byte(10 * i), 255})
		}
		images[name] = img
	}
	return images
}

// TestPlanes compares with the definition: 8 bits of what At gives.
func TestPlanes(t *testing.T) {
	for name, img := range imagesOfEveryKind() {
		got := make([]byte, 18)
		toPlanes(got, img, []int{3, 2, 3})
		for i := range 6 {
			r, g, b, _ := img.At(i%3, i/3).RGBA()
			if got[i] != byte(r>>8) || got[6+i] != byte(g>>8) || got[12+i] != byte(b>>8) {
				t.Errorf("%s: pixel %d is %d %d %d, want %d %d %d", name, i, got[i], got[6+i], got[12+i], r>>8, g>>8, b>>8)
			}
		}
		if isGrey(img.ColorModel()) {
			grey := make([]byte, 6)
			toPlanes(grey, img, []int{1, 2, 3})
			if !slices.Equal(grey, got[:6]) {
				t.Errorf("%s: one channel %v, of three %v", name, grey, got[:6])
			}
		}
	}
}

// TestPlanesIgnoreTransparency: the colour counts, as in PIL's conversion.
func TestPlanesIgnoreTransparency(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	img.SetNRGBA(0, 0, color.NRGBA{200, 100, 50, 3})
	got := make([]byte, 3)
	if toPlanes(got, img, []int{3, 1, 1}); !slices.Equal(got, []byte{200, 100, 50}) {
		t.Errorf("got %v", got)
	}
}

// TestGreyFolder: when all images are grey there is one channel.
func TestGreyFolder(t *testing.T) {
	grey := image.NewGray(image.Rect(0, 0, 2, 1))
	grey.Pix = []byte{0, 200}
	content := map[string][]byte{"train/a/0.png": encoded(t, grey), "test/a/0.png": encoded(t, grey)}
	train, _, err := Load(t.Context(), "folder:"+pack(t, content, false), Options{})
	if err != nil || !slices.Equal(train.Shape, []int{1, 1, 2}) || !slices.Equal(train.Image(0), []byte{0, 200}) {
		t.Fatalf("%v, %v", train, err)
	}
	content["test/a/1.png"] = pngOf(t, 2, 1, color.NRGBA{9, 8, 7, 255})
	train, test, err := Load(t.Context(), "folder:"+pack(t, content, false), Options{})
	if err != nil || !slices.Equal(train.Shape, []int{3, 1, 2}) || !slices.Equal(train.Image(0), []byte{0, 200, 0, 200, 0, 200}) {
		t.Fatalf("%v, %v", train, err)
	}
	if !slices.Equal(test.Image(1), []byte{0, 9, 0, 8, 0, 7}) {
		t.Errorf("the coloured one: %v", test.Image(1))
	}
}

func TestMoments(t *testing.T) {
	// Two images of two channels; the second channel has one value.
	mean, std := moments([]byte{0, 255, 51, 51, 255, 0, 51, 51}, []int{2, 1, 2})
	for i, want := range []float32{0.5, 0.2, 0.5, 1} {
		got := append(slices.Clone(mean), std...)[i]
		if math.Abs(float64(got-want)) > 1e-7 {
			t.Errorf("got %v and %v, want 0.5, 0.2 and 0.5, 1", mean, std)
			break
		}
	}
}

func BenchmarkDecodeImage(b *testing.B) {
	img := image.NewYCbCr(image.Rect(0, 0, 32, 32), image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = byte(i * i / 7)
	}
	opaque := image.NewRGBA(img.Bounds())
	draw.Draw(opaque, opaque.Bounds(), img, image.Point{}, draw.Src)
	for name, data := range map[string][]byte{"jpeg": jpegOf(b, img), "png": encoded(b, opaque)} {
		b.Run(name+"/32x32", func(b *testing.B) {
			f := imageFile{name: "a", path: "b", data: data}
			dst := make([]byte, 3*32*32)
			b.ReportAllocs()
			for b.Loop() {
				if err := decodeImage(f, dst, []int{3, 32, 32}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
