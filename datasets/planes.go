package datasets

import (
	"image"
	"image/color"
)

// toPlanes writes an image channel after channel, 8 bits each. Transparency is
// ignored: the colour is that of the opaque pixel.
func toPlanes(dst []byte, img image.Image, shape []int) {
	b, plane := img.Bounds(), shape[1]*shape[2]
	if shape[0] == 1 {
		greyPlane(dst, img)
		return
	}
	red, green, blue := dst[:plane], dst[plane:2*plane], dst[2*plane:3*plane]
	p := 0
	switch img := img.(type) {
	case *image.YCbCr:
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				c := img.COffset(x, y)
				red[p], green[p], blue[p] = color.YCbCrToRGB(img.Y[img.YOffset(x, y)], img.Cb[c], img.Cr[c])
				p++
			}
		}
	case *image.RGBA: // opaque when it comes from a file
		interleaved(red, green, blue, img.Pix, img.Stride, b.Dx())
	case *image.NRGBA:
		interleaved(red, green, blue, img.Pix, img.Stride, b.Dx())
	case *image.Gray, *image.Gray16:
		greyPlane(red, img)
		copy(green, red)
		copy(blue, red)
	default:
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
				red[p], green[p], blue[p] = c.R, c.G, c.B
				p++
			}
		}
	}
}

// interleaved takes the channels of pixels of four bytes apart.
func interleaved(red, green, blue, pix []byte, stride, width int) {
	for y := range len(red) / width {
		row := pix[y*stride:][:4*width]
		for x := range width {
			p := y*width + x
			red[p], green[p], blue[p] = row[4*x], row[4*x+1], row[4*x+2]
		}
	}
}

func greyPlane(dst []byte, img image.Image) {
	b, p := img.Bounds(), 0
	if img, ok := img.(*image.Gray); ok {
		for y := range b.Dy() {
			copy(dst[y*b.Dx():][:b.Dx()], img.Pix[y*img.Stride:])
		}
		return
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			dst[p] = color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y
			p++
		}
	}
}
