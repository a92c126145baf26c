package dist_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

// Two nodes that hold the same key exchange a message.
func ExampleDial() {
	ctx := context.Background()
	key := dist.NewKey()
	l, err := dist.Listen(ctx, "127.0.0.1:0", key)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()

	client, err := dist.Dial(ctx, l.Addr(), key)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	m := &dist.Message{
		Header:  dist.Header{Kind: dist.KindOperand, Layer: "fc1"},
		Tensors: []coded.Tensor{{Shape: []int{1, 3}, Data: []float32{1, 2, 3}}},
	}
	if err := client.Send(ctx, m); err != nil {
		log.Fatal(err)
	}
	var got dist.Message
	if err := server.Recv(&got); err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Layer, got.Tensors[0].Shape, got.Tensors[0].Data)

	_, err = dist.Dial(ctx, l.Addr(), dist.NewKey()) // somebody else's key
	fmt.Println(errors.Is(err, dist.ErrWrongKey))
	// Output:
	// fc1 [1 3] [1 2 3]
	// true
}
