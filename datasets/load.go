package datasets

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Options say where data sets may come from. The zero value looks at the usual
// places and downloads what is not there.
type Options struct {
	// Dir is the folder with the files of the data set, either in itself or in
	// a subfolder of the data set's name. When it is set, nothing else is
	// looked at and nothing is downloaded. A relative PATH of "folder:PATH" is
	// one inside it.
	Dir string
	// CacheDir holds what is downloaded, a subfolder for each data set. Empty:
	// the folder "coda" of the user's cache folder.
	CacheDir string
	// Offline forbids to touch the network: what is not on disk is not found.
	Offline bool
	// Mirrors are the addresses of folders to download from, tried in this
	// order before the data set's public mirrors. What they give is checked in
	// the same way.
	Mirrors []string
	// Client makes the downloads. Nil: a client that gives up on a server that
	// is silent.
	Client *http.Client
	// Log tells where the data was found and what went wrong on the way. Nil:
	// nothing is told.
	Log *slog.Logger
	// Synthetic describes the data set "synthetic".
	Synthetic Synthetic
	// Folder says how the data set "folder:PATH" is split.
	Folder Folder
}

// source makes the two parts of one data set.
type source func(ctx context.Context, o Options) (train, test *Set, err error)

// sources are the data sets by name.
func sources() map[string]source {
	return map[string]source{
		"mnist":         mnist.load,
		"fashion-mnist": fashionMNIST.load,
		"cifar10":       cifar10.load,
		"cifar100":      cifar100.load,
		"synthetic":     loadSynthetic,
	}
}

// Names returns the names that Load knows, sorted: "folder:PATH" stands for
// those with any path.
func Names() []string {
	names := slices.Collect(maps.Keys(sources()))
	names = append(names, FolderPrefix+"PATH")
	slices.Sort(names)
	return names
}

// Load returns the two parts of a data set: "cifar10", "cifar100", "mnist",
// "fashion-mnist", "synthetic", or "folder:PATH", a folder or a tar archive of
// images. The context bounds the time that finding and downloading may
// take.
//
// An unknown name is an ErrUnknown; data that is in none of the places is a
// *NotFoundError; a file that is not what it should be is a *FileError.
func Load(ctx context.Context, name string, o Options) (train, test *Set, err error) {
	load, ok := sources()[name]
	if path, folder := strings.CutPrefix(name, FolderPrefix); folder && path != "" {
		load, ok = loadFolder(path), true
	}
	if !ok {
		return nil, nil, fmt.Errorf("datasets: %w %q, expected one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if train, test, err = load(ctx, o); err != nil {
		return nil, nil, fmt.Errorf("datasets: %w", err)
	}
	return train, test, nil
}
