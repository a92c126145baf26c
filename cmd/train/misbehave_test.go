package main

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

func TestMisbehaviourRefuses(t *testing.T) {
	_, err := newMisbehaviour(workerFaults{Slow: "x=0", Drop: 2, Corrupt: math.NaN()})
	for _, want := range []string{"--slow: ", `--drop: "2" is not a probability from 0 to 1`, `--corrupt: "NaN"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	m, err := newMisbehaviour(workerFaults{})
	if err != nil {
		t.Fatal(err)
	}
	for order, want := range map[[2]string]string{
		{"melt", "1"}: `"melt" is not one of cut, slow, drop, corrupt`,
		{"cut", "3"}:  "missing unit in duration",
		{"drop", ""}:  "not a probability",
		{"slow", "x"}: "slowdown",
	} {
		if err := m.set(order[0], order[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", order, err, want)
		}
	}
}

// fates are what a worker does with its answers, in an order of its own.
func fates(t *testing.T, f workerFaults, backwards bool) (lost, wrong map[int]bool) {
	t.Helper()
	m, err := newMisbehaviour(f)
	if err != nil {
		t.Fatal(err)
	}
	lost, wrong = map[int]bool{}, map[int]bool{}
	for at := range 4000 {
		if backwards {
			at = 3999 - at
		}
		y := coded.NewTensor(2, 3)
		y.Data[1] = -7
		lost[at] = !m.tamper(dist.ProductInfo{Round: uint64(at / 4)}, at%4, y)
		for i, v := range y.Data {
			change := math.Abs(float64(v - []float32{0, -7, 0, 0, 0, 0}[i]))
			if change == 0 {
				continue
			}
			if wrong[at] || change != 7 {
				t.Errorf("answer %d: %v, want one value changed by 7", at, y.Data)
			}
			wrong[at] = true
		}
	}
	return lost, wrong
}

// Which answers are lost or wrong depends on the seed alone, with the
// probability that was asked for.
func TestTamper(t *testing.T) {
	count := func(m map[int]bool) (n int) {
		for _, hit := range m {
			if hit {
				n++
			}
		}
		return n
	}
	f := workerFaults{Drop: 0.05, Corrupt: 0.2, Seed: 7}
	lost, wrong := fates(t, f, false)
	lost2, wrong2 := fates(t, f, true)
	f.Seed = 8
	lost3, _ := fates(t, f, false)
	both, differ := 0, 0
	for at := range 4000 {
		if lost[at] != lost2[at] || wrong[at] != wrong2[at] {
			t.Errorf("answer %d depends on the order", at)
		}
		if lost[at] && wrong[at] {
			both++
		}
		if lost[at] != lost3[at] {
			differ++
		}
	}
	// Five standard deviations of 4000 draws around 200, and 4000*0.95 around 760.
	if n := count(lost); n < 130 || n > 270 {
		t.Errorf("%d of 4000 answers are lost, want about 200", n)
	}
	if n := count(wrong); n < 630 || n > 890 {
		t.Errorf("%d of 3800 answers are wrong, want about 760", n)
	}
	if both != 0 || differ < 200 {
		t.Errorf("%d answers are lost and wrong; %d have another fate with another seed, want about 380", both, differ)
	}
	lost, wrong = fates(t, workerFaults{}, false)
	if count(lost)+count(wrong) != 0 {
		t.Error("a worker without faults tampers with its answers")
	}
}

// Orders change what a worker does until standard input ends; what is no order
// is logged and changes nothing.
func TestOrders(t *testing.T) {
	m, err := newMisbehaviour(workerFaults{Slow: "x=2"})
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	var log bytes.Buffer
	ctx, stop := untilClosed(t.Context(), bufio.NewReaderSize(in, 64), m, slog.New(slog.NewTextHandler(&log, nil)))
	defer stop()
	if got := m.slowness(dist.ProductInfo{}); got != 2 {
		t.Errorf("factor %g, want 2", got)
	}
	for _, line := range []string{"slow x=4", "drop 0.25", "corrupt 0.5", "fly", "drop 7", strings.Repeat("x", 200)} {
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if ctx.Err() != nil {
		t.Error("the context has ended before the input")
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if got := m.slowness(dist.ProductInfo{}); got != 4 || m.drop != 0.25 || m.corrupt != 0.5 {
		t.Errorf("slow %g, drop %g, corrupt %g, want 4, 0.25, 0.5", got, m.drop, m.corrupt)
	}
	for _, want := range []string{`order=fly`, `order="drop 7"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s, want %q in it", log.String(), want)
		}
	}
}
