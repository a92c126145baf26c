package nn_test

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// The graph shows the rounds of placed layers as nodes, each start before what does
// not need its answers.
func TestWriteDot(t *testing.T) {
	e := shard.NewLocal(shard.LocalConfig{})
	resident := &nn.Resident{Executor: e, Code: trigonometric(6, 4), Chunks: 2}
	batch := &nn.Batch{Executor: e, Code: trigonometric(6, 4), Gradient: matdot(6, 4), Chunks: 2}
	rng := rand.New(rand.NewPCG(1, 1))
	model := nn.Sequential{
		nn.NewConv2d(rng, 2, 8, 3, nn.Conv2dConfig{}, nn.On(batch)), nn.ReLU{}, nn.Flatten{}, nn.NewLinear(rng, 8*6*5, 7, nn.On(resident)),
	}
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, model, convInput...)
	var out strings.Builder
	if err := b.WriteDot(&out, 8); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range regexp.MustCompile(`label="([0-9a-z.]+)\\n((?:encode|forward|backward|weight gradient)[^"]*)\\n`).FindAllStringSubmatch(out.String(), -1) {
		order = append(order, m[1]+" "+m[2])
	}
	want := []string{
		"0 encode batch", "0 forward start", "0 forward wait and decode", "3 forward start", "3 forward wait and decode",
		"3 backward start", "3 backward wait and decode", "0 encode gradient of batch", "0.gradient weight gradient start",
	}
	if got := strings.Join(order, ", "); got != strings.Join(want, ", ") {
		t.Errorf("rounds in the order\n%s, want\n%s", got, strings.Join(want, ", "))
	}
	for _, part := range []string{"digraph step {", `x -> n0`, `"0.weight" -> n`, `"3.ticket" -> n`, `"gradient of 0.weight"`, `style="filled,dashed"`, `\n[8 8 6 5]`} {
		if !strings.Contains(strings.ReplaceAll(out.String(), `"x" -> n0`, `x -> n0`), part) {
			t.Errorf("no %s in\n%s", part, out.String())
		}
	}
	if err := b.WriteDot(&out, 0); err == nil {
		t.Error("a graph for no sample")
	}
	if err := b.WriteDot(failing{}, 8); !errors.Is(err, errFull) {
		t.Errorf("error %v, want that of the writer", err)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
