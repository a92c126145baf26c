package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"train": main})
}

// TestScripts runs the command as a user would; see testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// The module cache and the user's cache hold the data sets.
			for _, name := range []string{"GOMODCACHE", "GOPATH", "GOFLAGS", "GOCACHE"} {
				if v := os.Getenv(name); v != "" {
					env.Setenv(name, v)
				}
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			env.Setenv("HOME", home)
			return nil
		},
	})
}
