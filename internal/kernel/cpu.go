package kernel

// families lists the micro-kernels that this processor can run, the portable
// one first and the fastest last.
var families = append([]*family{portable}, nativeFamilies()...)

var fastest = families[len(families)-1]
