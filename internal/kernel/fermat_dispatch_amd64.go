//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C gen run ./fermat -out ../fermat_amd64.s -stubs ../fermat_stubs_amd64.go -pkg kernel

func nativeFermatEngines() (list []fermatEngine) {
	if hasAVX512 && cpu.X86.HasAVX512VNNI {
		list = append(list, fermatEngine{"VNNI", fermatTiles})
	}
	return list
}
