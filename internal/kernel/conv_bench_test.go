package kernel

import (
	"fmt"
	"runtime"
	"testing"
)

// benchConvs are the layers of the MNIST convnet at batch 64, and others of
// common networks.
var benchConvs = []Conv{
	square(64, 1, 28, 32, 3, 1, 1, 1, 1),
	square(64, 32, 14, 64, 3, 1, 1, 1, 1),
	square(64, 64, 7, 128, 3, 1, 1, 1, 1),
	square(8, 64, 32, 64, 3, 1, 1, 1, 1),
	square(128, 16, 32, 16, 3, 1, 1, 1, 1),
	square(128, 32, 16, 32, 3, 1, 1, 1, 1),
	square(128, 64, 8, 64, 3, 1, 1, 1, 1),
	square(64, 256, 8, 256, 3, 1, 1, 1, 1),
	square(128, 16, 32, 32, 3, 2, 1, 1, 1),
	square(64, 64, 16, 128, 1, 2, 0, 1, 1),
	square(8, 3, 64, 64, 7, 2, 3, 1, 1),
	square(64, 512, 4, 512, 3, 1, 1, 1, 1),
	square(32, 64, 28, 64, 3, 1, 1, 1, 64),
	square(64, 128, 16, 128, 3, 2, 1, 1, 128),
}

func BenchmarkConv(b *testing.B) {
	p := NewPool(runtime.GOMAXPROCS(0))
	defer p.Close()
	for _, g := range benchConvs {
		shape := fmt.Sprintf("%dx%dx%dx%d_%d_%d", g.N, g.CI, g.H, g.W, g.CO, g.KH)
		if g.StrideH > 1 {
			shape += fmt.Sprintf("_s%d", g.StrideH)
		}
		if g.Groups > 1 {
			shape += fmt.Sprintf("_g%d", g.Groups)
		}
		flops := 2 * float64(g.OutLen()) * float64(g.CI/g.Groups*g.KH*g.KW)
		d := randomConvData(g, 1)
		var ws Workspace
		for _, op := range []struct {
			name string
			run  func()
		}{
			{"forward", func() { ConvForward(p, g, d.x, d.w, d.bias, d.gotY, false, &ws) }},
			{"input", func() { ConvBackwardInput(p, g, d.dy, d.w, d.gotDX, &ws) }},
			{"params", func() { ConvBackwardParams(p, g, d.x, d.dy, d.gotDW, d.gotDB, &ws) }},
		} {
			b.Run(op.name+"/"+shape, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					op.run()
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
