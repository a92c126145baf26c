package main

import (
	"fmt"
	"runtime/debug"
)

// version is the release that this source leads to.
const version = "0.1.0-dev"

type versionCmd struct{}

// Run prints the version, the commit if the build knows it, and the Go version.
func (versionCmd) Run(t terminal) error {
	commit, goVersion := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	_, err := fmt.Fprintf(t.stdout, "train %s, commit %s, %s\n", version, commit, goVersion)
	return err
}
