package datasets

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// FolderPrefix begins the name of a data set that is a folder or an archive of
// images: "folder:PATH".
const FolderPrefix = "folder:"

// Folder says how a data set "folder:PATH" without a folder for testing is
// split. A zero field has the value in its comment.
type Folder struct {
	Seed uint64
	Test float64 // fraction of each class's images held out for testing: 0.1
}

// loadFolder makes the source of the data set at a path.
func loadFolder(root string) source {
	return func(ctx context.Context, o Options) (train, test *Set, err error) {
		held := cmp.Or(o.Folder.Test, 0.1)
		if !(held > 0 && held < 1) {
			return nil, nil, fmt.Errorf("folder %s: fraction %v for testing, expected more than 0 and less than 1", root, o.Folder.Test)
		}
		list, err := listImages(ctx, root, o)
		if err != nil {
			return nil, nil, err
		}
		d, err := list.arrange()
		if err != nil {
			return nil, nil, err
		}
		if len(d.test) == 0 {
			d.holdOut(held, o.Folder.Seed)
		}
		return d.decode(ctx)
	}
}

// imageFolder is a list of images with their classes, in two parts, each in
// the order of the names. Class c has the name classes[c], in alphabetical
// order: as torchvision's ImageFolder numbers them.
type imageFolder struct {
	root        string
	classes     []string
	train, test []labelled
}

type labelled struct {
	imageFile
	class int
}

// trainFolder and testFolders are parts and not classes. Of those for testing
// the first one that has images is used.
const trainFolder = "train"

var testFolders = []string{"test", "val", "valid", "validation"}

// located is an image with what its path says.
type located struct {
	imageFile
	above, part, class string // the file is above/part/class/..; part may be ""
}

// locate takes the path of an image apart.
func locate(f imageFile) (located, bool) {
	parts := strings.Split(f.name, "/")
	n := len(parts)
	if n < 2 {
		return located{}, false
	}
	l := located{imageFile: f, class: parts[n-2]}
	above := parts[:n-2]
	if n > 2 && (parts[n-3] == trainFolder || slices.Contains(testFolders, parts[n-3])) {
		l.part, above = parts[n-3], parts[:n-3]
	}
	l.above = strings.Join(above, "/")
	return l, true
}

// arrange sorts the images into parts and classes.
func (l *imageList) arrange() (*imageFolder, error) {
	d := &imageFolder{root: l.root}
	if len(l.files) == 0 {
		return nil, &FileError{Path: l.root, Problem: "no images", Kind: ErrFormat, Found: fmt.Sprintf("%d other files", l.others),
			Want: "JPEG or PNG files as train/CLASS/FILE and test/CLASS/FILE, or as CLASS/FILE"}
	}
	slices.SortFunc(l.files, func(a, b imageFile) int { return strings.Compare(a.name, b.name) })
	parts := make(map[string][]located)
	var first located
	for i, f := range l.files {
		at, ok := locate(f)
		if i == 0 {
			first = at
		}
		if !ok {
			return nil, f.misplaced("in no folder")
		}
		if at.above != first.above || (at.part == "") != (first.part == "") {
			return nil, f.misplaced("beside " + first.name)
		}
		if i > 0 && f.name == l.files[i-1].name {
			return nil, f.fail(ErrFormat, "there twice", "a second entry of this name", "one")
		}
		parts[at.part] = append(parts[at.part], at)
	}
	train := parts[trainFolder]
	if first.part == "" {
		train = parts[""]
	}
	if len(train) == 0 {
		return nil, &FileError{Path: l.root, Problem: "no training images", Kind: ErrFormat,
			Found: fmt.Sprintf("only %s/", first.part), Want: trainFolder + "/CLASS/FILE"}
	}
	for _, f := range train {
		d.classes = append(d.classes, f.class)
	}
	slices.Sort(d.classes)
	d.classes = slices.Compact(d.classes)
	var err error
	if d.train, err = d.label(train); err != nil {
		return nil, err
	}
	for _, name := range testFolders {
		if len(parts[name]) > 0 {
			d.test, err = d.label(parts[name])
			return d, err
		}
	}
	return d, nil
}

func (f imageFile) misplaced(where string) error {
	return f.fail(ErrFormat, "unexpected place", "it "+where, "all images as train/CLASS/FILE and test/CLASS/FILE, or all as CLASS/FILE")
}

// label finds the classes of images.
func (d *imageFolder) label(files []located) ([]labelled, error) {
	list := make([]labelled, len(files))
	for i, f := range files {
		class, ok := slices.BinarySearch(d.classes, f.class)
		if !ok {
			return nil, f.fail(ErrFormat, "unknown class", f.class, fmt.Sprintf("one of the %d classes of %s/", len(d.classes), trainFolder))
		}
		list[i] = labelled{f.imageFile, class}
	}
	return list, nil
}

// holdOut moves a fraction of the images of each class, drawn by the seed and
// the number of the class, from the training images to those for testing. At
// least one image of a class stays, and one is moved if there are two.
func (d *imageFolder) holdOut(fraction float64, seed uint64) {
	byClass := make([][]int, len(d.classes))
	for i, f := range d.train {
		byClass[f.class] = append(byClass[f.class], i)
	}
	held := make([]bool, len(d.train))
	for class, images := range byClass {
		n := len(images)
		order := make([]int, n)
		shuffle(order, seed^holdOutStream, class)
		for _, i := range order[:min(max(int(math.Round(fraction*float64(n))), 1), n-1)] {
			held[images[i]] = true
		}
	}
	all := d.train
	d.train = nil
	for i, f := range all {
		if held[i] {
			d.test = append(d.test, f)
		} else {
			d.train = append(d.train, f)
		}
	}
}

// holdOutStream keeps this apart from what else is drawn from the same seed.
const holdOutStream = 0x686f6c646f7574
