package dist

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// littleEndian says that float32 values lie in memory as they go on the wire,
// so that tensors are sent and received without a copy.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// floatBytes views floats as bytes, in the machine's own order.
func floatBytes(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

// putFloats is the portable way out: it writes f into dst as little-endian
// bytes and returns them. All bit patterns survive.
func putFloats(dst []byte, f []float32) []byte {
	dst = dst[:4*len(f)]
	for i, v := range f {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
	return dst
}

// getFloats is the portable way in. raw may be the memory of f itself.
func getFloats(f []float32, raw []byte) {
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}
