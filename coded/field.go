package coded

// Prime is the size of the field in which codes are tested exactly: 2^31-1.
const Prime = 1<<31 - 1

func addMod(a, b uint32) uint32 { return uint32((uint64(a) + uint64(b)) % Prime) }
func subMod(a, b uint32) uint32 { return uint32((uint64(a) + Prime - uint64(b)) % Prime) }
func mulMod(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) % Prime) }

// invMod returns 1/a by Fermat's theorem, a^(Prime-2). a must not be 0.
func invMod(a uint32) uint32 {
	inv := uint32(1)
	for e := uint32(Prime - 2); e > 0; e >>= 1 {
		if e&1 == 1 {
			inv = mulMod(inv, a)
		}
		a = mulMod(a, a)
	}
	return inv
}

// intMod reduces an integer to 0 .. Prime-1.
func intMod(v int64) uint32 { return uint32((v%Prime + Prime) % Prime) }
