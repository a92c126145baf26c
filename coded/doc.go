// Package coded holds codes for linear algebra: pure mathematics, no goroutine,
// clock, socket or log.
package coded
