package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coda-ml/coda/internal/atomicfile"
)

const (
	// attemptDeadline bounds one try to get one file from one mirror.
	attemptDeadline = 5 * time.Minute
	// silence bounds how long a mirror may take to accept or to answer.
	silence = 20 * time.Second
)

// defaultClient returns a client that gives up on a server that is silent.
func defaultClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: silence}).DialContext,
		TLSHandshakeTimeout:   silence,
		ResponseHeaderTimeout: silence,
		ForceAttemptHTTP2:     true,
	}}
}

// download gets the files that dir lacks or has damaged, each from the first
// mirror that gives it whole. A file is in dir whole, or not at all.
func download(ctx context.Context, o Options, mirrors []string, dir string, files []idxFile) error {
	client := o.Client
	if client == nil {
		client = defaultClient()
		defer client.CloseIdleConnections()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.name+".gz")
		if have, err := readFile(path); err == nil && file.verify(have) == nil {
			continue
		}
		if err := fetchAny(ctx, o, client, mirrors, path, file); err != nil {
			return err
		}
	}
	return nil
}

// fetchAny tries the mirrors one after the other.
func fetchAny(ctx context.Context, o Options, client *http.Client, mirrors []string, path string, file idxFile) error {
	var failed []error
	for _, mirror := range mirrors {
		url := strings.TrimSuffix(mirror, "/") + "/" + file.name + ".gz"
		o.Log.Info("downloading", "url", url, "bytes", file.size)
		err := fetch(ctx, client, url, path, file)
		if err == nil {
			return nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break // the other mirrors would fail in the same way
		}
		o.Log.Warn("download failed", "url", url, "error", err)
	}
	return oneLine(failed)
}

// fetch gets one file from one address.
func fetch(ctx context.Context, client *http.Client, url, path string, file idxFile) error {
	ctx, cancel := context.WithTimeout(ctx, attemptDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("mirror address: %w", err)
	}
	// A server may mark a .gz file as a compressed transfer: without this the
	// transport would unpack it.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := client.Do(req)
	if err != nil {
		return err // names method and address
	}
	defer resp.Body.Close() // only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s (answered %s)", url, resp.Status)
	}
	if n := resp.ContentLength; n >= 0 && n != file.size {
		return &FileError{Path: url, Problem: "wrong size", Kind: ErrChecksum,
			Found: fmt.Sprintf("%d bytes", n), Want: fmt.Sprint(file.size)}
	}
	return atomicfile.Write(path, func(w io.Writer) error { return copyVerified(w, resp.Body, url, file) })
}

// copyVerified copies the file and fails if it is not what it should be. It
// reads at most one byte more than the file has.
func copyVerified(w io.Writer, r io.Reader, url string, file idxFile) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, file.size+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s (after %d of %d bytes: %w)", url, n, file.size, err)
	case n != file.size:
		return &FileError{Path: url, Problem: "wrong size", Kind: ErrChecksum,
			Found: fmt.Sprintf("%d bytes or more", n), Want: fmt.Sprint(file.size)}
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != file.sha256 {
		return &FileError{Path: url, Problem: "wrong SHA-256", Found: found, Want: file.sha256, Kind: ErrChecksum}
	}
	return nil
}

// oneLine joins errors, as errors.Join does, but on one line.
func oneLine(errs []error) error {
	args := make([]any, len(errs))
	for i, err := range errs {
		args[i] = err
	}
	return fmt.Errorf(strings.TrimSuffix(strings.Repeat("%w, ", len(errs)), ", "), args...)
}
