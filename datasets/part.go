package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coda-ml/coda/internal/atomicfile"
)

// abandoned is the age at which a part file has no owner: one that is written
// to falls silent for less, or gives up.
const abandoned = 3 * silence

// part is a file on its way: a hidden file beside the place where it will be,
// which no other download writes to.
//
// When a download ends early its part gets the name .NAME.part, and the next
// one takes it over by renaming it, which only one can do. A process that
// dies leaves a part with a name of its own, which is taken over once it is
// old enough. That two write to one file is thus all but impossible, and if
// they did, the checksum would tell.
type part struct {
	f    *os.File // nil: finished or closed
	path string   // of the finished file
	file asset
	have int64 // bytes written
	sum  hash.Hash
}

// openPart takes over what an earlier download left of a file, or begins anew.
func openPart(path string, file asset) (*part, error) {
	dir, base := filepath.Split(path)
	f, err := os.CreateTemp(dir, "."+base+".*.part")
	if err != nil {
		return nil, err
	}
	if old := leftover(path); old != "" {
		if f, err = adopt(f, old); err != nil {
			return nil, err
		}
	}
	p := &part{f: f, path: path, file: file, sum: sha256.New()}
	p.have, err = io.Copy(p.sum, io.LimitReader(f, file.size+1))
	if err == nil && p.have > file.size {
		err = p.reset()
	}
	if err != nil {
		return nil, oneLine(err, p.close())
	}
	return p, nil
}

// leftover returns a part file without an owner, or "".
func leftover(path string) string {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return "" // then creating a file there fails as well, and says so
	}
	for _, e := range entries {
		name := e.Name()
		if name == "."+base+".part" {
			return dir + name
		}
		if !strings.HasPrefix(name, "."+base+".") || !strings.HasSuffix(name, ".part") {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandoned {
			return dir + name
		}
	}
	return ""
}

// adopt renames an old part file over a new one and opens it. When another
// process was faster the new one stays.
func adopt(f *os.File, old string) (*os.File, error) {
	name := f.Name()
	if err := f.Close(); err != nil {
		return nil, err
	}
	err := os.Rename(old, name)
	if err == nil || isMissing(err) {
		// Old as it is, it looks abandoned.
		err = os.Chtimes(name, time.Time{}, time.Now())
	}
	if err != nil {
		return nil, oneLine(err, os.Remove(name))
	}
	return os.OpenFile(name, os.O_RDWR, 0)
}

// append adds what r gives, at most one byte more than the file has.
func (p *part) append(r io.Reader) error {
	n, err := io.Copy(io.MultiWriter(p.f, p.sum), io.LimitReader(r, p.file.size-p.have+1))
	p.have += n
	return err
}

// reset empties the part.
func (p *part) reset() error {
	p.have = 0
	p.sum.Reset()
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	_, err := p.f.Seek(0, io.SeekStart)
	return err
}

// reject empties the part and says why.
func (p *part) reject(url, problem, found, want string) error {
	err := &FileError{Path: url, Problem: problem, Found: found, Want: want, Kind: ErrChecksum}
	if reset := p.reset(); reset != nil {
		return oneLine(err, reset)
	}
	return err
}

// verify rejects a part that is not the whole file.
func (p *part) verify(url string) error {
	if p.have != p.file.size {
		return p.reject(url, "wrong size", fmt.Sprintf("%d bytes or more", p.have), fmt.Sprint(p.file.size))
	}
	if found := hex.EncodeToString(p.sum.Sum(nil)); found != p.file.sha256 {
		return p.reject(url, "wrong SHA-256", found, p.file.sha256)
	}
	return nil
}

// finish puts the file in its place.
func (p *part) finish() error {
	// Without the fsync the renamed file may be empty after a crash.
	err := oneLine(p.f.Chmod(0o644), p.f.Sync(), p.f.Close())
	name := p.f.Name()
	p.f = nil
	if err != nil {
		return oneLine(err, os.Remove(name))
	}
	return atomicfile.RenameFile(name, p.path)
}

// close ends the work on a part that was not finished, and leaves what there
// is of it to the next download.
func (p *part) close() error {
	if p.f == nil {
		return nil
	}
	name := p.f.Name()
	err := p.f.Close()
	p.f = nil
	if p.have == 0 {
		return oneLine(err, os.Remove(name))
	}
	dir, base := filepath.Split(p.path)
	return oneLine(err, os.Rename(name, dir+"."+base+".part"))
}

// verify checks the SHA-256 of a file that r reads, if its sum is known.
func (a asset) verify(path string, r io.Reader) error {
	if a.sha256 == "" {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != a.sha256 {
		return &FileError{Path: path, Problem: "wrong SHA-256", Found: found, Want: a.sha256, Kind: ErrChecksum}
	}
	return nil
}

// verifyFile is verify for the file at path. It takes no memory to speak of.
func (a asset) verifyFile(path string) error {
	f, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	return a.verify(path, f)
}
