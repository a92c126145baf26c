package main

import (
	"runtime/debug"
	"testing"
)

func TestDescribeBuild(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "abc123"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for want, info := range map[string]*debug.BuildInfo{
		version:                             nil,
		version + ", commit abc123, go1.26": {GoVersion: "go1.26", Settings: []debug.BuildSetting{commit}},
		version + ", commit abc123 (changed since), go1.26": {GoVersion: "go1.26", Settings: []debug.BuildSetting{commit, changed}},
		version + ", commit unknown, go1.26":                {GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}},
		version + ", module v0.2.0, go1.26":                 {GoVersion: "go1.26", Main: debug.Module{Version: "v0.2.0"}},
	} {
		if got := describeBuild(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
