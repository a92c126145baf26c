package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// search is one search for a data set in the places that the user did not name.
type search struct {
	name    string   // of the data set
	advice  string   // what to do when it is in none of the places
	files   string   // what --data-dir should hold
	assets  []asset  // what the cache folder holds
	mirrors []string // from which it is filled
	o       Options
	// read reads and verifies the files of a folder.
	read   func(dir string) error
	looked []string // places without the data, each with the reason
}

// try reads the files of a folder. A folder with damaged files is as good as
// one without: the reason is kept and the search goes on.
func (s *search) try(dir string) bool {
	err := s.read(dir)
	if err == nil {
		s.o.Log.Debug("data set found", "dataset", s.name, "folder", dir)
		return true
	}
	if _, damaged := errors.AsType[*FileError](err); damaged {
		s.o.Log.Warn("data set files not used", "dataset", s.name, "folder", dir, "error", err)
	}
	s.looked = append(s.looked, err.Error())
	return false
}

// cached reads the files from the cache folder, into which it downloads what
// is missing.
func (s *search) cached(ctx context.Context) error {
	if s.assets[0].sha256 == "" {
		// Without checksums nothing is ever put into the cache.
		return s.notFound(nil, "")
	}
	dir, err := cacheDir(s.o, s.name)
	if err != nil {
		s.looked = append(s.looked, fmt.Sprintf("the user's cache folder (%v)", err))
		return s.notFound(err, "")
	}
	if s.try(dir) {
		return nil
	}
	mirrors := append(slices.Clone(s.o.Mirrors), s.mirrors...)
	switch {
	case s.o.Offline:
		s.looked = append(s.looked, "no mirror (offline)")
		return s.notFound(nil, s.byHand(dir, mirrors)+", or allow downloading")
	case len(mirrors) == 0:
		s.looked = append(s.looked, "no mirror (none is known)")
		return s.notFound(nil, "")
	}
	if err := download(ctx, s.o, mirrors, dir, s.assets); err != nil {
		s.looked = append(s.looked, err.Error())
		return s.notFound(err, "")
	}
	if !s.try(dir) {
		return s.notFound(errors.New("downloaded files changed on disk"), "")
	}
	return nil
}

func (s *search) notFound(err error, more string) error {
	advice := strings.TrimSpace(s.advice + " name the folder of " + s.files + " with --data-dir")
	return &NotFoundError{Name: s.name, Looked: s.looked, Advice: advice + more, Err: err}
}

// byHand says how to fill the cache folder without this program.
func (s *search) byHand(dir string, mirrors []string) string {
	if len(mirrors) == 0 {
		return ""
	}
	names := make([]string, len(s.assets))
	for i, a := range s.assets {
		names[i] = a.name
	}
	return fmt.Sprintf(", or put %s from %s into %s", enumerate(names), mirrors[0], dir)
}

// enumerate joins names for a sentence: "a, b and c".
func enumerate(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// cacheDir returns the folder for the downloaded files of a data set.
func cacheDir(o Options, name string) (string, error) {
	root := o.CacheDir
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(base, "coda")
	}
	return filepath.Join(root, name), nil
}
