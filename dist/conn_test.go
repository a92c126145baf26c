package dist

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/coda-ml/coda/coded"
)

func TestSmoke(t *testing.T) {
	ctx := t.Context()
	key := NewKey()
	l, err := Listen(ctx, "127.0.0.1:0", key)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(ctx, l.Addr(), key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	for _, p := range [][2]*Conn{{c, s}, {NewConn(a), NewConn(b)}} {
		go p[0].Send(context.Background(), &Message{Header: Header{Kind: KindTask, Layer: "fc1"}, Tensors: []coded.Tensor{coded.NewTensor(3, 100000)}})
		var m Message
		if err := p[1].Recv(&m); err != nil {
			t.Fatal(err)
		}
		if m.Kind != KindTask || m.Layer != "fc1" || len(m.Tensors) != 1 || len(m.Tensors[0].Data) != 300000 {
			t.Fatal(m.Header)
		}
		p[0].Close()
		if err := p[1].Recv(&m); err != io.EOF {
			t.Fatal(err)
		}
	}
	if _, err := Dial(ctx, l.Addr(), NewKey()); err == nil {
		t.Fatal("no error")
	} else {
		t.Log(err)
	}
}
