package coded

// Partition cuts a length into K blocks of equal Size, the last of which may be
// shorter or empty: a code sees them as padded with zeros.
type Partition struct {
	Total int // length that is cut
	K     int // blocks
	Size  int // of a block: Total/K, rounded up
}

// Blocks cuts total >= 0 into k >= 1 blocks. (Other arguments give a partition
// that has no blocks.)
func Blocks(total, k int) Partition {
	if total < 0 || k < 1 {
		return Partition{}
	}
	size := total / k
	if total%k != 0 {
		size++
	}
	return Partition{Total: total, K: k, Size: size}
}

// Bounds returns where block j begins and ends: [lo,hi). A block beyond the end
// is empty, with lo = hi = Total.
func (p Partition) Bounds(j int) (lo, hi int) {
	return min(j*p.Size, p.Total), min((j+1)*p.Size, p.Total)
}
