//go:build unix

package dist

import (
	"io/fs"
	"syscall"
)

// ownedByRoot tells whether a file belongs to root.
func ownedByRoot(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
