package dist

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// BenchmarkLoopback moves tensors of 4 MiB over loopback TCP: bare bytes,
// frames, and frames in TLS. The ratio of the last to the first is the price of
// the wire; compare the three of one run.
func BenchmarkLoopback(b *testing.B) {
	const values = 1 << 20
	b.Run("raw/4MiB", func(b *testing.B) {
		client, server := tcpPair(b)
		in, out := make([]byte, 4*values), make([]byte, 4*values)
		go func() {
			for {
				if _, err := client.Write(out); err != nil {
					return
				}
			}
		}()
		b.SetBytes(4 * values)
		for b.Loop() {
			if _, err := io.ReadFull(server, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("frame/4MiB", func(b *testing.B) {
		client, server := tcpPair(b)
		benchmarkConn(b, NewConn(client), NewConn(server), values)
	})
	b.Run("tls/4MiB", func(b *testing.B) {
		client, server := securePair(b)
		benchmarkConn(b, client, server, values)
	})
	b.Run("tls/empty", func(b *testing.B) {
		client, server := securePair(b)
		benchmarkConn(b, client, server, 0)
	})
}

func benchmarkConn(b *testing.B, client, server *Conn, values int) {
	m := &Message{Header: Header{Kind: KindOperand, Layer: "fc1"}}
	if values > 0 {
		m.Tensors = []coded.Tensor{coded.NewTensor(values/1024, 1024)}
	}
	buf := make([]float32, values)
	server.Alloc = func(n int) []float32 { return buf[:n] }
	go func() {
		for client.Send(context.Background(), m) == nil {
		}
	}()
	var got Message
	b.SetBytes(int64(4 * values))
	b.ReportAllocs()
	for b.Loop() {
		if err := server.Recv(&got); err != nil {
			b.Fatal(err)
		}
	}
}

func tcpPair(tb testing.TB) (client, server net.Conn) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func securePair(tb testing.TB) (client, server *Conn) {
	tb.Helper()
	key := NewKey()
	l, err := Listen(tb.Context(), "127.0.0.1:0", key)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if client, err = Dial(tb.Context(), l.Addr(), key); err != nil {
		tb.Fatal(err)
	}
	if server, err = l.Accept(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}
