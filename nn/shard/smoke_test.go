package shard_test

import (
	"testing"

	"github.com/coda-ml/coda/nn/shard"
)

func TestFactoriesBuildWhatTheyName(t *testing.T) {
	if _, ok := shard.Factories()[shard.KindLinear]; !ok {
		t.Fatal("no linear factory")
	}
}
