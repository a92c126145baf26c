// Package exact runs codes on integers, without any rounding: every code of
// package coded that has a form over a prime field (coded.Code.Modular), for
// integer data and for floats that were quantised.
//
// # The idea
//
// Modulo a prime p numbers can be added, multiplied and divided as reals can, so
// that the same coefficients, the same rows of M and the same weights D with
// D M_S = W encode and decode (see package coded), and what comes out is exact.
// Conditioning is no concern: at any points whatsoever a Vandermonde matrix is as
// good as another. What must be watched is the range: an integer result is had
// from its residue if it lies between -p/2 and p/2.
//
//	code, err := exact.Of(c, field.Mersenne61)      // c: any *coded.Code
//	results, err := code.Run(task, a, b)            // what a worker does
//	d := exact.NewDecoder(code, 0)
//	outputs, err := d.Decode(have, results)         // all results of the tasks, in order
//
// There are three primes. Modulo 2^61-1
// sums of products of numbers of 24 bits do not wrap around for thousands of
// terms; modulo 2^31-1, those of 9 bits; modulo 65537 elements take two bytes and
// products a processor's instructions for bytes ([Vector], [Multiply]), and a
// polynomial code at roots of unity ([Polynomial]) decodes by a Fourier transform
// where that is faster, from 64 blocks on.
//
// # Quantised data
//
// [Levels] says how fine numbers can be quantised so that a product cannot wrap
// around, [Quantise] and [Dequantise] do it:
//
//	levels, err := exact.Levels(field.Mersenne31, inner)
//	stepA, err := exact.Quantise(a, x, p, levels)   // and b, with stepB
//	exact.Dequantise(y, product, p, stepA*stepB)
//
// # Invariants
//
//   - Elements are 0 .. p-1; functions that read bytes from elsewhere check it.
//   - Everything is a function of its arguments, and independent of the number of
//     goroutines: sums modulo p have no order.
//   - Sizes that do not fit are errors. Nothing panics on account of them.
//
// # Goroutines
//
// Code and Decoder are safe for concurrent use; matrices and vectors are as
// slices are.
package exact
