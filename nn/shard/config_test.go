package shard_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/nn/shard"
)

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := shard.LinearConfig{In: rapid.Int().Draw(rt, "in"), Out: rapid.Int().Draw(rt, "out"), Backward: rapid.Bool().Draw(rt, "backward")}
		raw, err := c.Marshal()
		if err != nil {
			rt.Fatal(err)
		}
		if got, err := shard.ParseLinearConfig(raw); err != nil || got != c {
			rt.Fatalf("%+v came back as %+v, %v", c, got, err)
		}
		if _, err := shard.ParseLinearConfig(append(raw, 0)); err == nil {
			rt.Fatal("a byte after the end was accepted")
		}
		if _, err := shard.ParseLinearConfig(raw[:len(raw)-1]); err == nil {
			rt.Fatal("a missing byte was accepted")
		}
	})
}

func FuzzParseLinearConfig(f *testing.F) {
	raw, err := shard.LinearConfig{In: 784, Out: 625, Backward: true}.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})    // a map of 4 billion entries
	f.Add([]byte("\x81\xa1x\xc6\xff\xff\xff\xff")) // an unknown field of 4 GB
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := shard.ParseLinearConfig(raw)
		if err != nil {
			return
		}
		if c.Validate(4, 1) == nil && (c.In < 1 || c.Backward && c.In < 4 || c.Out < 4 || c.In > 1<<24 || c.Out > 1<<24) {
			t.Errorf("%+v is out of bounds and was accepted", c)
		}
	})
}

func TestValidateListsEveryProblem(t *testing.T) {
	wantError(t, shard.LinearConfig{In: 0, Out: math.MaxInt}.Validate(0, 1), "0 blocks", "in has 0 features", "out has 9223372036854775807 features")
	wantError(t, shard.LinearConfig{In: 3, Out: 5, Backward: true}.Validate(6, 1), "in has 3", "out has 5", "stay local")
	wantError(t, shard.LinearConfig{In: 1 << 24, Out: 1 << 24}.Validate(4, 1), "values, want at most")
	wantError(t, shard.LinearConfig{In: 8, Out: 40, Backward: true}.Validate(4, 3), "3 chunks, want 1 to 2")
	wantError(t, shard.LinearConfig{In: 8, Out: 40}.Validate(4, 0), "0 chunks, want 1 to 10")
	if err := (shard.LinearConfig{In: 8, Out: 40}).Validate(4, 10); err != nil {
		t.Error(err)
	}
}
