// Command gen writes the assembly of package kernel: run "go generate" there.
// It has a module of its own, so that the library does not depend on avo.
package main

import (
	"flag"

	"github.com/mmcloughlin/avo/build"
)

func main() {
	optim := flag.Bool("optim", false, "write the kernels of the optimisers instead of all others")
	layer := flag.Bool("layers", false, "write the kernels of normalisation and activations instead")
	loss := flag.Bool("losses", false, "write the kernels of the losses and of the softmax instead")
	flag.Parse() // with avo's own flags
	build.ConstraintExpr("amd64,!noasm")
	switch {
	case *optim:
		optimisers()
	case *layer:
		layers()
	case *loss:
		losses()
	default:
		products()
		packs()
		vectors()
		storeFence()
	}
	build.Generate()
}
