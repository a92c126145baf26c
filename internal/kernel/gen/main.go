// Command gen writes the assembly of package kernel: run "go generate" there.
// It has a module of its own, so that the library does not depend on avo.
package main

import "github.com/mmcloughlin/avo/build"

func main() {
	build.ConstraintExpr("amd64,!noasm")
	products()
	packs()
	vectors()
	build.Generate()
}
