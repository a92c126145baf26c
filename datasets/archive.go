package datasets

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
)

const (
	// maxUnpacked bounds what an archive may unpack to, maxEntries the number
	// of its entries.
	maxUnpacked = 64 << 30
	maxEntries  = 1 << 23

	// tarBlock is the size of the blocks of a tar archive: the end is two
	// blocks of zeros, of which one is enough for all programs.
	tarBlock = 512
)

// walkTar calls visit for every regular file of a tar archive, gzipped or not
// (the content tells), in the order of the archive. The reader that visit gets
// is valid during the call and gives size bytes, or an error; entry is cleaned.
// Nothing is written anywhere, so that an entry's name can do no harm, and no
// memory is taken that depends on a size in the archive.
//
// An archive that is damaged or ends early is a FileError that names the
// archive and the last entry that was begun. An error of visit is returned as
// it is, unless it comes from its reader.
func walkTar(ctx context.Context, archive string, r io.Reader, visit func(entry string, size int64, r io.Reader) error) error {
	w := tarWalk{archive: archive}
	in := bufio.NewReaderSize(r, 1<<16)
	unpacked := io.Reader(in)
	if head, err := in.Peek(2); err == nil && bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return w.unreadable(err)
		}
		unpacked = z
	}
	counted := &counted{r: unpacked, left: maxUnpacked}
	if err := w.entries(ctx, tar.NewReader(counted), visit); err != nil {
		return w.unreadable(err)
	}
	// The reader takes the end of the file for the end of the archive, also
	// where it ought to find the zeros that end one.
	if counted.zeros < tarBlock {
		return w.unreadable(io.ErrUnexpectedEOF)
	}
	// Reading on to the end is also what checks the sum of a gzip file.
	if _, err := io.Copy(io.Discard, counted); err != nil {
		return w.unreadable(err)
	}
	return nil
}

type tarWalk struct {
	archive string
	entry   string // begun last
	count   int
}

func (w *tarWalk) entries(ctx context.Context, t *tar.Reader, visit func(string, int64, io.Reader) error) error {
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read %s: %w", w.archive, context.Cause(ctx))
		}
		w.entry = path.Clean(h.Name)
		if w.count++; w.count > maxEntries {
			return &FileError{Path: w.archive, Entry: w.entry, Problem: "too many entries", Kind: ErrFormat,
				Found: fmt.Sprint(w.count), Want: fmt.Sprintf("at most %d", maxEntries)}
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := visit(w.entry, h.Size, t); err != nil {
			return err
		}
	}
}

var errUnpacked = errors.New("it unpacks to too much")

// unreadable turns an error of the readers into a FileError.
func (w *tarWalk) unreadable(err error) error {
	e := &FileError{Path: w.archive, Entry: w.entry, Kind: ErrFormat, Problem: "damaged", Want: "a tar archive, gzipped or not"}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Kind, e.Problem, e.Found = ErrTruncated, "truncated", "the end of the file"
		e.Want = "the rest of the archive"
	case errors.Is(err, errUnpacked):
		e.Problem, e.Found, e.Want = "too large", "more", fmt.Sprintf("at most %d bytes unpacked", int64(maxUnpacked))
	case errors.Is(err, tar.ErrHeader) && w.count == 0:
		e.Problem, e.Found = "not an archive", "no tar header at the start"
	case errors.Is(err, tar.ErrHeader):
		e.Found = "a broken tar header after this entry"
	case corrupt, errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		e.Found = fmt.Sprintf("a broken compressed stream (%v)", err)
	default:
		return err
	}
	return e
}

// counted fails when more than left bytes are read, and counts the zeros that
// were read last.
type counted struct {
	r     io.Reader
	left  int64
	zeros int
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left <= 0 && len(p) > 0 {
		return 0, errUnpacked
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	if rest := len(bytes.TrimRight(p[:n], "\x00")); rest == 0 {
		c.zeros += n
	} else {
		c.zeros = n - rest
	}
	return n, err
}
