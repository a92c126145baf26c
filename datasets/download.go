package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// silence bounds how long a mirror may take to accept, to answer, and
	// between two pieces of its answer.
	silence = 20 * time.Second
	// attemptDeadline and slowest, in bytes a second, bound one try to get one
	// file from one mirror.
	attemptDeadline = 5 * time.Minute
	slowest         = 64 << 10
)

var errSilent = errors.New("the mirror fell silent")

// asset is one file of a data set that can be downloaded.
type asset struct {
	name   string
	size   int64
	sha256 string // in hexadecimal; "": not known
}

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
// mirror that gives it whole. A file is in dir whole, or not at all; what
// arrived of it before the connection broke waits in dir under a hidden name
// and is completed by the next try.
func download(ctx context.Context, o Options, mirrors []string, dir string, files []asset) error {
	client := o.Client
	if client == nil {
		client = defaultClient()
		defer client.CloseIdleConnections()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		if file.verifyFile(path) == nil {
			continue
		}
		if err := fetchAny(ctx, o, client, mirrors, path, file); err != nil {
			return err
		}
	}
	return nil
}

// fetchAny tries the mirrors one after the other.
func fetchAny(ctx context.Context, o Options, client *http.Client, mirrors []string, path string, file asset) error {
	var failed []error
	for _, mirror := range mirrors {
		url := strings.TrimSuffix(mirror, "/") + "/" + file.name
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
	return oneLine(failed...)
}

// fetch gets one file from one address, or what an earlier try has not got of
// it. What was there may be of another file; then it is fetched from the
// start.
func fetch(ctx context.Context, client *http.Client, url, path string, file asset) (err error) {
	p, err := openPart(path, file)
	if err != nil {
		return err
	}
	defer func() { err = oneLine(err, p.close()) }()
	resumed := p.have > 0
	err = p.complete(ctx, client, url)
	if resumed && errors.Is(err, ErrChecksum) {
		err = p.complete(ctx, client, url)
	}
	if err != nil {
		return err
	}
	return p.finish()
}

// complete gets the rest of the file and checks the whole. After an error of
// the kind ErrChecksum the part is empty.
func (p *part) complete(ctx context.Context, client *http.Client, url string) error {
	if p.have < p.file.size {
		if err := p.request(ctx, client, url); err != nil {
			return err
		}
	}
	return p.verify(url)
}

// request asks for the bytes that are missing.
func (p *part) request(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, attemptDeadline+time.Duration(p.file.size/slowest)*time.Second)
	defer cancel()
	ctx, silent := context.WithCancelCause(ctx)
	defer silent(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("mirror address: %w", err)
	}
	// A server may mark a .gz file as a compressed transfer: without this the
	// transport would unpack it.
	req.Header.Set("Accept-Encoding", "identity")
	if p.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
	}
	resp, err := client.Do(req)
	if err != nil {
		return err // names method and address
	}
	defer resp.Body.Close() // only read
	if err := p.accept(resp, url); err != nil {
		return err
	}
	timer := time.AfterFunc(silence, func() { silent(errSilent) })
	defer timer.Stop()
	if err := p.append(&watched{resp.Body, timer}); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s (after %d of %d bytes: %w)", url, p.have, p.file.size, err)
	}
	return nil
}

// accept checks that the answer is the rest of the file, or the whole of it.
func (p *part) accept(resp *http.Response, url string) error {
	size := p.file.size
	switch resp.StatusCode {
	case http.StatusOK: // also the answer of a server that knows no ranges
		if err := p.reset(); err != nil {
			return err
		}
		if n := resp.ContentLength; n >= 0 && n != size {
			return p.reject(url, "wrong size", fmt.Sprintf("%d bytes", n), fmt.Sprint(size))
		}
	case http.StatusPartialContent:
		want := fmt.Sprintf("bytes %d-%d/%d", p.have, size-1, size)
		if found := resp.Header.Get("Content-Range"); found != want {
			return p.reject(url, "wrong range", fmt.Sprintf("%.60q", found), want)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return p.reject(url, "wrong size", fmt.Sprintf("at most %d bytes", p.have), fmt.Sprint(size))
	default:
		return fmt.Errorf("%s (answered %s)", url, resp.Status)
	}
	return nil
}

// watched puts a timer off whenever something arrives.
type watched struct {
	r     io.Reader
	timer *time.Timer
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.timer.Reset(silence)
	}
	return n, err
}

// oneLine joins the errors that are not nil, as errors.Join does, but on one
// line.
func oneLine(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	args := make([]any, len(errs))
	for i, err := range errs {
		args[i] = err
	}
	return fmt.Errorf(strings.TrimSuffix(strings.Repeat("%w, ", len(errs)), ", "), args...)
}
