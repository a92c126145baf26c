package datasets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// cifar is a data set in the binary format of CIFAR: files of records, each of
// one or two label bytes (the last one counts) and the pixels, channel after
// channel, row by row.
type cifar struct {
	name       string
	files      []cifarFile
	folder     string // in which the official archive puts the files
	archive    asset
	mirrors    []string // addresses of folders
	classNames []string
	coarse     int // labels of the byte before the label; 0: there is none
	shape      []int
	mean, std  []float32
}

// cifarFile is one file of records. Those for training come first.
type cifarFile struct {
	name    string
	split   string
	records int
}

// load finds the files and decodes them.
func (c *cifar) load(ctx context.Context, o Options) (train, test *Set, err error) {
	r := newCIFARReader(c)
	if o.Dir != "" {
		err = r.fromDir(ctx, o.Dir)
	} else {
		s := search{
			name: c.name, files: c.contents(), assets: []asset{c.archive}, mirrors: c.mirrors, o: o,
			read: func(dir string) error {
				path := filepath.Join(dir, c.archive.name)
				if err := c.archive.verifyFile(path); err != nil {
					return err
				}
				r = newCIFARReader(c) // nothing is left of an earlier folder
				return r.fromArchive(ctx, path)
			},
		}
		err = s.cached(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	if train, err = r.set("train"); err != nil {
		return nil, nil, err
	}
	if test, err = r.set("test"); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// contents describes what --data-dir should hold.
func (c *cifar) contents() string {
	names := make([]string, len(c.files))
	for i, f := range c.files {
		names[i] = f.name
	}
	return enumerate(names) + ", or of " + c.archive.name + ","
}

// recordSize is the size of a record in bytes.
func (c *cifar) recordSize() int { return c.labelBytes() + c.imageSize() }

func (c *cifar) imageSize() int { return c.shape[0] * c.shape[1] * c.shape[2] }

func (c *cifar) labelBytes() int {
	if c.coarse > 0 {
		return 2
	}
	return 1
}

// cifarReader collects the two parts of a data set from its files. Its memory
// depends on what the files must hold, not on what they say.
type cifarReader struct {
	*cifar
	splits map[string]*cifarSplit
	done   []bool // by file
}

type cifarSplit struct {
	pixels []byte
	labels []uint16
}

func newCIFARReader(c *cifar) *cifarReader {
	return &cifarReader{cifar: c, splits: make(map[string]*cifarSplit), done: make([]bool, len(c.files))}
}

func (r *cifarReader) set(split string) (*Set, error) {
	return newSet(Contents{
		Name: r.name, Split: split, Classes: len(r.classNames), ClassNames: r.classNames, Shape: r.shape,
		Mean: r.mean, Std: r.std, Pixels: r.splits[split].pixels,
	}, r.splits[split].labels)
}

// room returns where the content of a file goes, which does not depend on the
// order in which the files are read.
func (r *cifarReader) room(file int) (pixels []byte, labels []uint16) {
	split, before, all := r.files[file].split, 0, 0
	for i, f := range r.files {
		if f.split != split {
			continue
		}
		if i < file {
			before += f.records
		}
		all += f.records
	}
	s := r.splits[split]
	if s == nil {
		s = &cifarSplit{make([]byte, all*r.imageSize()), make([]uint16, all)}
		r.splits[split] = s
	}
	return s.pixels[before*r.imageSize():], s.labels[before:]
}

// fromDir reads from a folder that the user named: the files themselves, or the
// archive, in it or in one of the usual subfolders.
func (r *cifarReader) fromDir(ctx context.Context, dir string) error {
	var looked []string
	for _, sub := range []string{r.name, filepath.Join(r.name, r.folder), r.folder, "."} {
		folder := filepath.Join(dir, sub)
		missing := r.missing(folder)
		if len(missing) == 0 {
			return r.fromFolder(ctx, folder)
		}
		for _, name := range []string{r.archive.name, strings.TrimSuffix(r.archive.name, ".gz")} {
			path := filepath.Join(folder, name)
			if _, err := os.Stat(path); err == nil {
				return r.fromArchive(ctx, path)
			} else if !isMissing(err) {
				return err
			}
		}
		looked = append(looked, fmt.Sprintf("%s (no %s)", folder, strings.Join(missing, ", ")))
	}
	return &NotFoundError{Name: r.name, Looked: looked,
		Advice: "put its files there, or name the folder of " + r.contents() + " with --data-dir"}
}

// missing returns the files that a folder does not have.
func (r *cifarReader) missing(folder string) []string {
	var names []string
	for _, file := range r.files {
		if _, err := os.Stat(filepath.Join(folder, file.name)); isMissing(err) {
			names = append(names, file.name)
		}
	}
	if len(names) == len(r.files) {
		return []string{r.files[0].name + " .."}
	}
	return names
}

func (r *cifarReader) fromFolder(ctx context.Context, folder string) error {
	for i, file := range r.files {
		if ctx.Err() != nil {
			return fmt.Errorf("load %s: %w", r.name, context.Cause(ctx))
		}
		path := filepath.Join(folder, file.name)
		f, size, err := openRegular(path)
		if err != nil {
			return err
		}
		err = r.read(i, recordFile{path, "", size, f})
		if err = oneLine(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// fromArchive reads from a tar archive that holds the files in any folder and
// order.
func (r *cifarReader) fromArchive(ctx context.Context, name string) error {
	f, _, err := openRegular(name)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	err = walkTar(ctx, name, f, func(entry string, size int64, in io.Reader) error {
		i := slices.IndexFunc(r.files, func(file cifarFile) bool { return file.name == path.Base(entry) })
		if i < 0 {
			return nil
		}
		return r.read(i, recordFile{name, entry, size, in})
	})
	if err != nil {
		return err
	}
	for i, done := range r.done {
		if !done {
			return &FileError{Path: name, Problem: "incomplete", Kind: ErrFormat,
				Found: "no " + r.files[i].name, Want: fmt.Sprintf("%d files (%s ..)", len(r.files), r.files[0].name)}
		}
	}
	return nil
}

// recordFile is a file of records, in a folder or in an archive.
type recordFile struct {
	path, entry string
	size        int64
	in          io.Reader
}

func (f recordFile) fail(kind error, problem, found, want string) error {
	return &FileError{Path: f.path, Entry: f.entry, Problem: problem, Found: found, Want: want, Kind: kind}
}

// read reads the file with the number i.
func (r *cifarReader) read(i int, f recordFile) error {
	if r.done[i] {
		return f.fail(ErrFormat, "there twice", "a second "+r.files[i].name, "one")
	}
	records := r.files[i].records
	full := int64(records * r.recordSize())
	want := fmt.Sprintf("%d bytes (%d records of %d)", full, records, r.recordSize())
	switch {
	case f.size < full:
		return f.fail(ErrTruncated, "truncated", fmt.Sprintf("%d bytes", f.size), want)
	case f.size > full:
		return f.fail(ErrFormat, "too long", fmt.Sprintf("%d bytes", f.size), want)
	}
	pixels, labels := r.room(i)
	n, err := r.records(f, pixels[:records*r.imageSize()], labels[:records])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return f.fail(ErrTruncated, "truncated", fmt.Sprintf("the end of the file in record %d", n), want)
	}
	r.done[i] = err == nil
	return err
}

// records reads as many records as there is room for and returns how many were
// read whole.
func (r *cifarReader) records(f recordFile, pixels []byte, labels []uint16) (n int, err error) {
	in := bufio.NewReaderSize(f.in, 1<<16)
	var marks [2]byte
	mark := marks[:r.labelBytes()]
	for n := range labels {
		if _, err := io.ReadFull(in, mark); err != nil {
			return n, err
		}
		label := int(mark[len(mark)-1])
		if label >= len(r.classNames) {
			return n, f.fail(ErrFormat, fmt.Sprintf("label of record %d is out of range", n),
				fmt.Sprint(label), fmt.Sprintf("0 to %d", len(r.classNames)-1))
		}
		if r.coarse > 0 && int(mark[0]) >= r.coarse {
			return n, f.fail(ErrFormat, fmt.Sprintf("coarse label of record %d is out of range", n),
				fmt.Sprint(mark[0]), fmt.Sprintf("0 to %d", r.coarse-1))
		}
		labels[n] = uint16(label)
		if _, err := io.ReadFull(in, pixels[n*r.imageSize():(n+1)*r.imageSize()]); err != nil {
			return n, err
		}
	}
	return len(labels), nil
}
