package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

// wireRow is tensors of so many megabytes (2^20 bytes) that go over loopback from
// one goroutine to another: as bare bytes, as frames with checksums, and as frames
// on an encrypted connection. Rates are medians; the ratio is that of the last to
// the first, the median over rounds in which all had their turn. The processor
// time counts both ends: where the cores are busy with other things as well, it
// tells the ratio that the wall clock cannot; it is 0 on systems that do not tell.
type wireRow struct {
	System   string  `json:"system"`
	Bench    string  `json:"bench"`
	MBytes   int     `json:"mbytes"`
	RawGBs   float64 `json:"raw_gbs"`
	PlainGBs float64 `json:"plain_gbs"`
	TLSGBs   float64 `json:"tls_gbs"`
	Ratio    float64 `json:"ratio"`
	RawCPU   float64 `json:"raw_cpu_s_per_gb"`
	PlainCPU float64 `json:"plain_cpu_s_per_gb"`
	TLSCPU   float64 `json:"tls_cpu_s_per_gb"`
	CPURatio float64 `json:"cpu_ratio"`
}

// wirePath carries one tensor at a time from one end to the other.
type wirePath struct {
	send  func(context.Context) error
	recv  func() error
	close func() error
}

func benchWire(ctx context.Context, b *benchCmd, out rows) error {
	for _, mbytes := range []int{1, 4, 16} {
		row, err := wireBench(ctx, b, mbytes<<18, 64/mbytes)
		if err != nil {
			return err
		}
		row.MBytes = mbytes
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

// wireBench moves tensors of so many values, several in a turn.
func wireBench(ctx context.Context, b *benchCmd, values, turn int) (row wireRow, err error) {
	paths := make([]*wirePath, 0, 3)
	for _, open := range []func(context.Context, int) (*wirePath, error){openRaw, openPlain, openTLS} {
		p, err := open(ctx, values)
		if err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		paths = append(paths, p)
	}
	var rates, costs [3][]float64
	var ratios, costRatios []float64
	gigabytes := 4e-9 * float64(values) * float64(turn)
	warm := b.now().Add(time.Duration(b.Seconds / 3 * float64(time.Second)))
	end := warm.Add(time.Duration(b.Seconds * float64(time.Second)))
	for rounds := 0; rounds < 5 || b.now().Before(end); {
		var wall, cpu [3]float64
		for i, p := range paths {
			if wall[i], cpu[i], err = b.takeTurn(ctx, p, turn); err != nil {
				return row, err
			}
		}
		if b.now().Before(warm) {
			continue
		}
		rounds++
		for i := range paths {
			rates[i] = append(rates[i], gigabytes/wall[i])
			costs[i] = append(costs[i], cpu[i]/gigabytes)
		}
		ratios = append(ratios, wall[0]/wall[2])
		costRatios = append(costRatios, cpu[0]/max(cpu[2], 1e-9))
	}
	return wireRow{
		System: "coda", Bench: "wire",
		RawGBs: median(rates[0]), PlainGBs: median(rates[1]), TLSGBs: median(rates[2]), Ratio: median(ratios),
		RawCPU: median(costs[0]), PlainCPU: median(costs[1]), TLSCPU: median(costs[2]), CPURatio: median(costRatios),
	}, nil
}

// takeTurn sends and receives so many tensors, and gives the seconds that it
// took and the processor time.
func (b *benchCmd) takeTurn(ctx context.Context, p *wirePath, turn int) (wall, cpu float64, err error) {
	defer context.AfterFunc(ctx, func() { p.close() })()
	began, before := b.now(), processorTime()
	sent := make(chan error, 1)
	go func() { sent <- repeat(turn, func() error { return p.send(ctx) }) }()
	err = repeat(turn, p.recv)
	if err != nil {
		err = errors.Join(err, p.close()) // the sender may wait for us
	}
	err = errors.Join(err, <-sent)
	return b.now().Sub(began).Seconds(), (processorTime() - before).Seconds(), err
}

func repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func openRaw(ctx context.Context, values int) (*wirePath, error) {
	client, server, err := loopbackPair(ctx)
	if err != nil {
		return nil, err
	}
	out, in := make([]byte, 4*values), make([]byte, 4*values)
	return &wirePath{
		send:  func(context.Context) error { _, err := client.Write(out); return err },
		recv:  func() error { _, err := io.ReadFull(server, in); return err },
		close: func() error { return errors.Join(client.Close(), server.Close()) },
	}, nil
}

func openPlain(ctx context.Context, values int) (*wirePath, error) {
	client, server, err := loopbackPair(ctx)
	if err != nil {
		return nil, err
	}
	return framePath(dist.NewConn(client), dist.NewConn(server), values), nil
}

func openTLS(ctx context.Context, values int) (_ *wirePath, err error) {
	key := dist.NewKey()
	l, err := dist.Listen(ctx, "127.0.0.1:0", key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	client, err := dist.Dial(ctx, l.Addr(), key)
	if err != nil {
		return nil, err
	}
	server, err := l.Accept(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return framePath(client, server, values), nil
}

// framePath sends tensors as messages, which arrive in the same memory each time.
func framePath(client, server *dist.Conn, values int) *wirePath {
	m := &dist.Message{Header: dist.Header{Kind: dist.KindOperand}, Tensors: []coded.Tensor{coded.NewTensor(values)}}
	buf := make([]float32, values)
	server.Alloc = func(n int) []float32 { return buf[:n] }
	var got dist.Message
	return &wirePath{
		send: func(ctx context.Context) error { return client.Send(ctx, m) },
		recv: func() error {
			if err := server.Recv(&got); err != nil {
				return err
			}
			if len(got.Tensors) != 1 || len(got.Tensors[0].Data) != values {
				return fmt.Errorf("a message with %d tensors, expected one of %d values", len(got.Tensors), values)
			}
			return nil
		},
		close: func() error { return errors.Join(client.Close(), server.Close()) },
	}
}

// loopbackPair is a TCP connection with both its ends.
func loopbackPair(ctx context.Context) (client, server net.Conn, err error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer ln.Close()
	var d net.Dialer
	if client, err = d.DialContext(ctx, "tcp", ln.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = ln.Accept(); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, server, nil
}
