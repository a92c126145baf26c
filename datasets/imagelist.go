package datasets

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// maxImageFile bounds the file of one image, maxHeld all those of an
	// archive, which are in memory until they are decoded.
	maxImageFile = 64 << 20
	maxHeld      = 8 << 30
	// maxDepth bounds how deep folders are searched, so that a circle of links
	// ends.
	maxDepth = 6
)

// imageFile is the file of an image, on disk or in memory.
type imageFile struct {
	name string // inside the folder or archive, with slashes
	path string // of the file, or of the archive
	data []byte // of a file of an archive; nil: on disk
}

// content returns the file's bytes.
func (f imageFile) content() ([]byte, error) {
	if f.data != nil {
		return f.data, nil
	}
	file, size, err := openRegular(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	if size > maxImageFile {
		return nil, f.tooLarge(size)
	}
	data, err := readSized(file, size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	return data, nil
}

func (f imageFile) fail(kind error, problem, found, want string) error {
	e := &FileError{Path: f.path, Problem: problem, Found: found, Want: want, Kind: kind}
	if f.data != nil {
		e.Entry = f.name
	}
	return e
}

func (f imageFile) tooLarge(size int64) error {
	return f.fail(ErrFormat, "too large", fmt.Sprintf("%d bytes", size), fmt.Sprintf("an image file of at most %d bytes", maxImageFile))
}

// imageList are the images of a folder or an archive.
type imageList struct {
	root   string
	files  []imageFile
	others int    // files that are not images, or hidden
	other  string // the first of them
	held   int64  // bytes in memory
}

// listImages finds the images at a path, a folder or a tar archive. A relative
// path is one inside Options.Dir.
func listImages(ctx context.Context, root string, o Options) (*imageList, error) {
	if o.Dir != "" && !filepath.IsAbs(root) {
		root = filepath.Join(o.Dir, root)
	}
	l := &imageList{root: root}
	info, err := os.Stat(root)
	switch {
	case isMissing(err):
		return nil, &NotFoundError{Name: FolderPrefix + root, Looked: []string{root + " (no such file or folder)"},
			Advice: "name a folder or a tar archive of JPEG or PNG images", Err: err}
	case err != nil:
		return nil, err
	case info.IsDir():
		err = l.addFolder(ctx, root, "", 0)
	case info.Mode().IsRegular():
		var f *os.File
		if f, err = os.Open(root); err != nil {
			return nil, err
		}
		err = oneLine(l.addArchive(ctx, f), f.Close())
	default:
		err = &FileError{Path: root, Problem: "unusable", Kind: ErrFormat, Found: info.Mode().Type().String(), Want: "a folder or a tar archive"}
	}
	if err != nil {
		return nil, err
	}
	if l.others > 0 {
		o.Log.Info("files without images not used", "dataset", FolderPrefix+root, "files", l.others, "first", l.other)
	}
	return l, nil
}

// isImage tells by its name whether a file is an image.
func isImage(name string) bool {
	base := path.Base(name)
	ext := strings.ToLower(path.Ext(base))
	return !strings.HasPrefix(base, ".") && (ext == ".jpg" || ext == ".jpeg" || ext == ".png")
}

func (l *imageList) skip(name string) {
	if l.others++; l.others == 1 {
		l.other = name
	}
}

// addFolder adds the images in a folder and below. Links are followed.
func (l *imageList) addFolder(ctx context.Context, dir, name string, depth int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("list %s: %w", l.root, context.Cause(ctx))
	}
	if depth > maxDepth {
		return &FileError{Path: dir, Problem: "too deep", Kind: ErrFormat, Found: "a folder inside more than 6 others",
			Want: "images as train/CLASS/FILE and test/CLASS/FILE, or as CLASS/FILE"}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		inside, full := path.Join(name, e.Name()), filepath.Join(dir, e.Name())
		mode := e.Type()
		if mode&os.ModeSymlink != 0 {
			info, err := os.Stat(full)
			if err != nil {
				return err
			}
			mode = info.Mode()
		}
		switch {
		case mode.IsDir() && !strings.HasPrefix(e.Name(), "."):
			if err := l.addFolder(ctx, full, inside, depth+1); err != nil {
				return err
			}
		case mode.IsRegular() && isImage(inside):
			l.files = append(l.files, imageFile{name: inside, path: full})
		default:
			l.skip(inside)
		}
	}
	return nil
}

// addArchive adds the images of a tar archive and keeps their files in memory.
func (l *imageList) addArchive(ctx context.Context, archive io.Reader) error {
	return walkTar(ctx, l.root, archive, func(entry string, size int64, r io.Reader) (err error) {
		if !isImage(entry) {
			l.skip(entry)
			return nil
		}
		file := imageFile{name: entry, path: l.root, data: []byte{}}
		if size > maxImageFile {
			return file.tooLarge(size)
		}
		if l.held += size; l.held > maxHeld {
			return file.fail(ErrFormat, "archive too large", "more before this entry", fmt.Sprintf("images of at most %d bytes in all", int64(maxHeld)))
		}
		if file.data, err = readSized(r, size); err != nil {
			return err
		}
		l.files = append(l.files, file)
		return nil
	})
}

// readSized reads size bytes. If that is many, the memory grows with what
// really comes.
func readSized(r io.Reader, size int64) ([]byte, error) {
	const trusted = 1 << 20
	if size <= trusted {
		data := make([]byte, size)
		_, err := io.ReadFull(r, data)
		return data, err
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, size)
	return b.Bytes(), err
}
