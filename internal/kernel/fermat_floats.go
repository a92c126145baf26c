package kernel

// fermatFloats computes products modulo 65537 by float32 ones that are exact.
// Elements are cut in two digits of at most 128 in size, x + 256 y, and with
// 2^16 = -1
//
//	[x y] [ u  v ]  =  [x u - y v,  x v + y u]
//	      [-v  u ]
//
// Sums of up to 1024 products of digits are at most 2^24 in size, which float32
// holds whatever the order of the sum.
func fermatFloats(p *Pool, c *Fermat, pieces []fermatPiece, n int) {
	f := &fermatFloat{p: p, c: c, m: len(c.Rows)}
	for f.j0 = 0; f.j0 < n; f.j0 += floatColumns {
		f.cols = min(floatColumns, n-f.j0)
		f.sum = grow(f.sum, f.m*f.cols)
		clear(f.sum)
		for _, x := range pieces {
			for at := 0; at < len(x.right); at += floatSteps {
				f.add(x, at, min(floatSteps, len(x.right)-at))
			}
		}
		f.store()
	}
}

const (
	floatSteps   = 512 // of the inner dimension, of two digits each
	floatColumns = 512 // of C at a time
)

// fermatFloat is the computation of some columns of c.
type fermatFloat struct {
	p              *Pool
	c              *Fermat
	m              int
	j0, cols       int
	a, b, products []float32
	sum            []int64 // m x cols; less than 2^33 in size for each block of steps
}

// add adds the product of steps at .. at+steps-1 of a piece.
func (f *fermatFloat) add(x fermatPiece, at, steps int) {
	f.a = grow(f.a, f.m*2*steps)
	f.b = grow(f.b, 2*steps*2*f.cols)
	f.products = grow(f.products, f.m*2*f.cols)
	f.p.Run(f.m, func(i int) {
		row := f.a[i*2*steps : (i+1)*2*steps]
		for k, v := range x.left[i][x.off+at : x.off+at+steps] {
			row[k], row[steps+k] = digits(v)
		}
	})
	f.p.Run(steps, func(k int) {
		upper := f.b[k*2*f.cols : (k+1)*2*f.cols]
		lower := f.b[(steps+k)*2*f.cols : (steps+k+1)*2*f.cols]
		for j, v := range x.right[at+k][f.j0 : f.j0+f.cols] {
			u, v := digits(v)
			upper[j], upper[f.cols+j] = u, v
			lower[j], lower[f.cols+j] = -v, u
		}
	})
	Gemm(f.p, false, false, f.m, 2*f.cols, 2*steps, 1, f.a, 2*steps, f.b, 2*f.cols, 0, f.products, 2*f.cols)
	f.p.Run(f.m, func(i int) {
		ordinary := f.products[i*2*f.cols : (i+1)*2*f.cols]
		mixed := ordinary[f.cols:]
		for j := range f.sum[i*f.cols : (i+1)*f.cols] {
			f.sum[i*f.cols+j] += int64(ordinary[j]) + int64(mixed[j])<<8
		}
	})
}

// digits cuts an element in x + 256 y with x and y from -128 to 128.
func digits(v uint16) (x, y float32) {
	s := int32(v)
	if s > fermatPrime/2 {
		s -= fermatPrime
	}
	low := int32(int8(s))
	return float32(low), float32((s - low) >> 8)
}

const fermatPrime = 1<<16 + 1

// store writes the sums, reduced.
func (f *fermatFloat) store() {
	for i, row := range f.c.Rows {
		for j, s := range f.sum[i*f.cols : (i+1)*f.cols] {
			r := fermatReduce(s)
			if r == fermatPrime-1 {
				f.c.Carry = append(f.c.Carry, Entry{i, f.j0 + j})
				r--
			}
			row[f.j0+j] = uint16(r)
		}
	}
}

// fermatReduce returns s modulo 65537, for any s.
func fermatReduce(s int64) int64 {
	for range 4 {
		s = s&0xffff - s>>16 // about 16 bits shorter
	}
	if s < 0 {
		s += fermatPrime
	}
	return s
}
