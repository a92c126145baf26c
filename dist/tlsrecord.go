package dist

import (
	"encoding/binary"
	"net"
)

// recordConn gives TLS no byte beyond the end of the record that it is reading.
// TLS reads as much as there is; what follows its last record is a segment's,
// and must stay in the socket.
type recordConn struct {
	net.Conn
	head [5]byte // type, version, length of the body
	got  int     // bytes of head that were read
	left int     // bytes of the body that were not
}

func (r *recordConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.left > 0 {
		n, err := r.Conn.Read(p[:min(len(p), r.left)])
		r.left -= n
		return n, err
	}
	n, err := r.Conn.Read(p[:min(len(p), len(r.head)-r.got)])
	r.got += copy(r.head[r.got:], p[:n])
	if r.got == len(r.head) {
		r.got, r.left = 0, int(binary.BigEndian.Uint16(r.head[3:]))
	}
	return n, err
}
