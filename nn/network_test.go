package nn

import (
	"testing"
)

func newNetwork(t testing.TB, m Module, shape []int, c Config) *Network {
	t.Helper()
	net, err := NewNetwork(m, shape, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	return net
}
