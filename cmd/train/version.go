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
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintf(t.stdout, "train %s\n", describeBuild(info))
	return err
}

// describeBuild names the version, the commit and the Go version of a build; a
// module that was installed by its version has no commit but that version.
func describeBuild(info *debug.BuildInfo) string {
	if info == nil {
		return version
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " (changed since)"
		}
	}
	if v := info.Main.Version; commit == "unknown" && v != "" && v != "(devel)" {
		return fmt.Sprintf("%s, module %s, %s", version, v, info.GoVersion)
	}
	return fmt.Sprintf("%s, commit %s%s, %s", version, commit, changed, info.GoVersion)
}
