package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded/exact"
	"github.com/coda-ml/coda/coded/field"
	"github.com/coda-ml/coda/internal/kernel"
)

// exactRow is the product of two matrices of bytes modulo 65537 by a polynomial
// code over worker processes. Times are medians over the rounds, of which each
// waits for the first m*q answers.
type exactRow struct {
	System    string  `json:"system"`
	Bench     string  `json:"bench"`
	Size      int     `json:"size"`
	N         int     `json:"n"`
	M         int     `json:"m"`
	Q         int     `json:"q"`
	Threads   int     `json:"threads"`
	Rounds    int     `json:"rounds"`
	Seconds   float64 `json:"seconds"`    // sending, waiting and decoding
	EncodeMS  float64 `json:"encode_ms"`  // of all coded blocks, before that
	WaitMS    float64 `json:"wait_ms"`    // sending and waiting
	SendMS    float64 `json:"send_ms"`    // in which operands were being sent
	ComputeMS float64 `json:"compute_ms"` // of a worker for its task, mean
	DecodeMS  float64 `json:"decode_ms"`
	Bytes     int64   `json:"bytes"` // sent and received
	Exact     bool    `json:"exact"` // every round's result is the direct product
}

// exactBench is the job: C = A B with A and B square matrices of bytes.
type exactBench struct {
	b       *benchCmd
	size    int
	code    *exact.Code
	n, m, q int
	pool    *kernel.Pool
	x, y    []uint8 // A and B
	workers *exactWorkers
	decoder *exact.Decoder

	codedA, codedB   []*exact.Vector // by task
	results, outputs []*exact.Vector // by task; by output
	direct           []uint64
}

// Sizes of the job: those of the experiment in the paper of the polynomial code.
const (
	exactN       = 17
	exactBlocks  = 4 // of each operand
	maxExactSize = 1 << 15
)

func benchExact(ctx context.Context, b *benchCmd, out rows) (err error) {
	e := &exactBench{b: b, size: b.Size, n: exactN, m: exactBlocks, q: exactBlocks}
	if e.code, err = exact.Polynomial(field.Fermat, e.n, e.m, e.q); err != nil {
		return err
	}
	e.decoder = exact.NewDecoder(e.code, 0)
	e.pool = kernel.NewPool(b.Threads)
	defer e.pool.Close()
	e.prepare()
	e.workers, err = startExactWorkers(ctx, e.n, e.blockSize())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.workers.close()) }()
	row, err := e.measure(ctx)
	if err != nil {
		return err
	}
	return out(row)
}

// blockSize is the shape of a task: rows, inner dimension, columns.
func (e *exactBench) blockSize() [3]int { return [3]int{e.size / e.m, e.size, e.size / e.q} }

// prepare draws the operands and takes the memory of everything that comes of them.
func (e *exactBench) prepare() {
	rng := rand.New(rand.NewPCG(1, 4))
	e.x, e.y = randomBytes(rng, e.size*e.size), randomBytes(rng, e.size*e.size)
	s := e.blockSize()
	for range e.n {
		e.codedA = append(e.codedA, newVector(s[0]*s[1]))
		e.codedB = append(e.codedB, newVector(s[1]*s[2]))
		e.results = append(e.results, newVector(s[0]*s[2]))
	}
	for range e.code.Outputs() {
		e.outputs = append(e.outputs, newVector(s[0]*s[2]))
	}
	e.direct = directProduct(e.pool, e.x, e.y, e.size)
}

func newVector(n int) *exact.Vector { return &exact.Vector{Low: make([]uint16, n)} }

func randomBytes(rng *rand.Rand, n int) []uint8 {
	x := make([]uint8, n)
	for i := range x {
		x[i] = uint8(rng.Uint32())
	}
	return x
}

// encode cuts the operands in blocks, A along its rows and B along its columns,
// and computes the coded blocks of all tasks.
func (e *exactBench) encode() error {
	s := e.blockSize()
	a, b := make([]exact.Vector, e.m), make([]exact.Vector, e.q)
	for i := range a {
		a[i] = *newVector(s[0] * s[1])
		for j, v := range e.x[i*s[0]*s[1] : (i+1)*s[0]*s[1]] {
			a[i].Low[j] = uint16(v)
		}
	}
	for i := range b {
		b[i] = *newVector(s[1] * s[2])
		for k := range s[1] {
			for j, v := range e.y[k*e.size+i*s[2] : k*e.size+(i+1)*s[2]] {
				b[i].Low[k*s[2]+j] = uint16(v)
			}
		}
	}
	return e.code.EncodeVectors(e.pool, e.codedA, e.codedB, a, b)
}

// measure encodes and makes a round to warm up, and then rounds for the
// benchmark's time, at least five.
func (e *exactBench) measure(ctx context.Context) (exactRow, error) {
	row := exactRow{System: "coda", Bench: "exact", Size: e.size, N: e.n, M: e.m, Q: e.q, Threads: e.b.Threads, Exact: true}
	if err := e.encode(); err != nil { // takes the memory
		return row, err
	}
	began := e.b.now()
	if err := e.encode(); err != nil {
		return row, err
	}
	row.EncodeMS = milliseconds(e.b.now().Sub(began))
	rng := rand.New(rand.NewPCG(1, 5))
	var times exactTimes
	var end time.Time
	for i := 0; i < 6 || e.b.now().Before(end); i++ {
		if i == 1 {
			end, times = e.b.now().Add(time.Duration(e.b.Seconds*float64(time.Second))), exactTimes{}
		}
		if err := e.round(ctx, rng.Perm(e.n), &times); err != nil {
			return row, fmt.Errorf("round %d: %w", i, err)
		}
		row.Exact = row.Exact && e.correct()
	}
	row.Rounds = len(times.total)
	row.Seconds, row.WaitMS, row.DecodeMS = median(times.total)/1e3, median(times.wait), median(times.decode)
	row.SendMS, row.ComputeMS = median(times.send), median(times.compute)
	row.Bytes = times.bytes / int64(row.Rounds)
	return row, nil
}

// exactTimes are those of the rounds so far, in milliseconds.
type exactTimes struct {
	total, wait, send, compute, decode []float64
	bytes                              int64
}

// round makes one round: the operands are handed out in the given order, and the
// first answers that suffice are decoded.
func (e *exactBench) round(ctx context.Context, order []int, times *exactTimes) error {
	for _, v := range e.outputs {
		clear(v.Low)
	}
	began := e.b.now()
	r := &exactRound{
		workers: e.workers, order: order, need: e.code.Outputs(), threads: e.b.Threads,
		a: e.codedA, b: e.codedB, results: e.results, now: e.b.now,
	}
	defer r.settle()
	got, err := r.run(ctx)
	if err != nil {
		return err
	}
	waited := e.b.now()
	slices.Sort(got.have)
	results := make([]exact.Vector, len(got.have))
	for i, t := range got.have {
		results[i] = *e.results[t]
	}
	if err := e.decoder.DecodeVectors(e.pool, e.outputs, got.have, results); err != nil {
		return err
	}
	ended := e.b.now()
	times.total = append(times.total, milliseconds(ended.Sub(began)))
	times.wait = append(times.wait, milliseconds(waited.Sub(began)))
	times.decode = append(times.decode, milliseconds(ended.Sub(waited)))
	times.send = append(times.send, milliseconds(got.sending))
	times.compute = append(times.compute, milliseconds(got.compute)/float64(len(got.have)))
	times.bytes += got.bytes
	return nil
}

// correct compares the outputs, blocks of C, with the direct product.
func (e *exactBench) correct() bool {
	s := e.blockSize()
	for o, v := range e.outputs {
		i0, j0 := o/e.q*s[0], o%e.q*s[2]
		x := v.Unpack()
		for i := range s[0] {
			if !slices.Equal(x[i*s[2]:(i+1)*s[2]], e.direct[(i0+i)*e.size+j0:(i0+i)*e.size+j0+s[2]]) {
				return false
			}
		}
	}
	return true
}

// directProduct multiplies square matrices of bytes modulo 65537 by another way:
// float32 products of so few terms that they are exact, 256 of at most 255^2.
func directProduct(pool *kernel.Pool, a, b []uint8, size int) []uint64 {
	const steps, strip = 256, 250
	x, y, z := make([]float32, strip*steps), make([]float32, steps*size), make([]float32, strip*size)
	out := make([]uint64, size*size)
	for k0 := 0; k0 < size; k0 += steps {
		k := min(steps, size-k0)
		toFloats(y[:k*size], b[k0*size:])
		for i0 := 0; i0 < size; i0 += strip {
			m := min(strip, size-i0)
			for i := range m {
				toFloats(x[i*k:(i+1)*k], a[(i0+i)*size+k0:])
			}
			kernel.Gemm(pool, false, false, m, size, k, 1, x, k, y, size, 0, z, size)
			for i, v := range z[:m*size] {
				out[i0*size+i] += uint64(v)
			}
		}
	}
	for i, v := range out {
		out[i] = v % uint64(field.Fermat)
	}
	return out
}

func toFloats(dst []float32, x []uint8) {
	for i := range dst {
		dst[i] = float32(x[i])
	}
}
