//go:build !noasm

package kernel

import (
	"slices"
	"sync"
)

// The product in tiles of 4 x 48 elements, see the generated assembly: rows of A
// are packed once, columns of B tile by tile into memory of the second-level
// cache, which all rows of A then pass.
const (
	fermatRows     = 4
	fermatCols     = 48
	fermatStep     = 4                           // elements of the inner dimension in a lane
	fermatLeft     = 2 * fermatRows * fermatStep // bytes of a step
	fermatRight    = 2 * fermatCols * fermatStep
	fermatSteps    = 1 << 15 / fermatStep // the sums of a tile stay below 2^31
	fermatAlign    = 16 / fermatStep      // steps that the rows of A are packed in
	fermatOffset   = 0x8080               // taken off the elements of B
	fermatItemSize = 1 << 22              // multiply-adds that are worth a goroutine's turn
)

// fermatTiled is a sum of products under way.
type fermatTiled struct {
	c      *Fermat
	n      int
	pieces []fermatPiece
	steps  int
	left   []uint8    // packed rows of A, tile by tile
	first  []int32    // of each row of A: what the sums begin with
	right  [][]uint16 // the rows of B, 4 to a step
	tiles  int        // down
	per    int        // tiles across in an item

	mu    sync.Mutex
	carry []Entry
}

// fermatMemory is what an item needs.
type fermatMemory struct{ right []uint8 }

var (
	fermats        = freeList[fermatTiled]{most: 4}
	fermatMemories = freeList[fermatMemory]{most: 16}
)

func fermatTiles(p *Pool, c *Fermat, pieces []fermatPiece, n int) {
	f := fermats.get()
	f.n, f.tiles = n, ceilDiv(len(c.Rows), fermatRows)
	for i, round := range fermatRounds(pieces) {
		if i == 0 {
			f.round(p, c, round)
			continue
		}
		more := &Fermat{Rows: make([][]uint16, len(c.Rows))}
		for i := range more.Rows {
			more.Rows[i] = make([]uint16, n)
		}
		f.round(p, more, round)
		fermatAdd(c, more)
	}
	*f = fermatTiled{left: f.left, first: f.first, right: f.right, carry: f.carry[:0]}
	clear(f.right)
	fermats.put(f)
}

// fermatRounds cuts pieces so that the sums of a round do not overflow.
func fermatRounds(pieces []fermatPiece) (rounds [][]fermatPiece) {
	left := 0
	for _, x := range pieces {
		for at := 0; at < len(x.right); {
			if left == 0 {
				rounds, left = append(rounds, nil), fermatSteps
			}
			k := min(len(x.right)-at, left*fermatStep)
			last := len(rounds) - 1
			rounds[last] = append(rounds[last], fermatPiece{x.left, x.off + at, x.right[at : at+k]})
			at += k
			left = max(left-fermatPadded(k), 0)
		}
	}
	return rounds
}

// fermatPadded returns the steps that k elements take.
func fermatPadded(k int) int { return roundUp(ceilDiv(k, fermatStep), fermatAlign) }

// round sets c to the sum of the pieces.
func (f *fermatTiled) round(p *Pool, c *Fermat, pieces []fermatPiece) {
	f.c, f.pieces, f.steps, f.right, f.carry = c, pieces, 0, f.right[:0], f.carry[:0]
	for _, x := range pieces {
		f.right = append(f.right, x.right...)
		f.steps += fermatPadded(len(x.right))
		for len(f.right) < f.steps*fermatStep {
			f.right = append(f.right, x.right[0]) // met by zeros of A
		}
	}
	f.left = grow(f.left, f.tiles*f.steps*fermatLeft)
	f.first = grow(f.first, f.tiles*fermatRows)
	p.run(f.tiles, (*fermatPack)(f))
	across := ceilDiv(f.n, fermatCols)
	f.per = across
	if p.Threads() > 1 {
		f.per = min(ceilDiv(fermatItemSize, f.tiles*f.steps*fermatRows*fermatStep*fermatCols), ceilDiv(across, p.Threads()))
	}
	p.run(ceilDiv(across, f.per), (*fermatItem)(f))
	c.Carry = append(c.Carry, f.carry...)
	f.c, f.pieces = nil, nil
}

// fermatPack packs the rows of a tile of A.
type fermatPack fermatTiled

func (f *fermatPack) part(tile int) {
	var rows [fermatRows][]uint16
	var total [fermatRows]int64
	dst := f.left[tile*f.steps*fermatLeft : (tile+1)*f.steps*fermatLeft]
	for _, x := range f.pieces {
		for i := range rows { // a last row that is missing is computed as well
			rows[i] = x.left[min(tile*fermatRows+i, len(x.left)-1)]
			_ = rows[i][x.off+len(x.right)-1]
		}
		var sums [2 * fermatRows]int32
		packFermatLeft(&dst[0], &rows[0], x.off, len(x.right), &sums[0])
		dst = dst[fermatPadded(len(x.right))*fermatLeft:]
		for i := range total {
			total[i] += int64(sums[i]) + int64(sums[fermatRows+i])<<8
		}
	}
	for i, t := range total {
		f.first[tile*fermatRows+i] = int32(fermatReduce(t * fermatOffset))
	}
}

// fermatItem computes some tiles across.
type fermatItem fermatTiled

func (f *fermatItem) part(item int) {
	memory := fermatMemories.get()
	defer fermatMemories.put(memory)
	memory.right = grow(memory.right, f.steps*fermatRight)
	for j0 := item * f.per * fermatCols; j0 < min((item+1)*f.per*fermatCols, f.n); j0 += fermatCols {
		f.column(memory.right, j0, min(fermatCols, f.n-j0))
	}
}

// column computes the tiles below each other from column j0 on.
func (f *fermatItem) column(right []uint8, j0, cols int) {
	for _, row := range f.right {
		_ = row[j0+cols-1]
	}
	_ = right[f.steps*fermatRight-1]
	var sums [fermatCols]int32
	packFermatRight(&right[0], &f.right[0], f.steps, j0, cols, &sums[0])
	for j := range sums {
		sums[j] *= -0xff
	}
	var spare [fermatCols]uint16
	var carry [fermatRows * fermatCols / 16]uint16
	for tile := range f.tiles {
		var c [fermatRows]*uint16
		for i := range c {
			c[i] = &spare[0]
			if r := tile*fermatRows + i; r < len(f.c.Rows) {
				c[i] = &f.c.Rows[r][j0 : j0+cols][0]
			}
		}
		if fermatTile(f.steps, &f.left[tile*f.steps*fermatLeft], &right[0], &f.first[tile*fermatRows], &sums[0], &c, cols, &carry[0]) != 0 {
			f.collect(tile*fermatRows, j0, &carry)
		}
	}
}

// collect adds the carries of a tile to the list.
func (f *fermatItem) collect(i0, j0 int, carry *[fermatRows * fermatCols / 16]uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v, bits := range carry {
		i := i0 + v/(fermatCols/16)
		for b := 0; bits != 0 && i < len(f.c.Rows); b, bits = b+1, bits>>1 {
			if bits&1 != 0 {
				f.carry = append(f.carry, Entry{i, j0 + v%(fermatCols/16)*16 + b})
			}
		}
	}
}

// fermatAdd adds d to c; their carries are in no order.
func fermatAdd(c, d *Fermat) {
	one := map[Entry]int64{}
	for _, e := range slices.Concat(c.Carry, d.Carry) {
		one[e]++
	}
	c.Carry = c.Carry[:0]
	for i, row := range c.Rows {
		for j := range row {
			s := fermatReduce(int64(row[j]) + int64(d.Rows[i][j]) + one[Entry{i, j}])
			if s == fermatPrime-1 {
				c.Carry = append(c.Carry, Entry{i, j})
				s--
			}
			row[j] = uint16(s)
		}
	}
}
