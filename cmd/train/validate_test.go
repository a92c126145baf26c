package main

import (
	"strings"
	"testing"
)

// What follows from other settings.
func TestValidateFillsDefaults(t *testing.T) {
	for _, test := range []struct {
		args          string
		n, k, minWork int
	}{
		{"", 6, 4, 6},
		{"--workers=1", 1, 1, 1},
		{"--workers=8 --k=7", 8, 7, 8},
		{"--code=uncoded", 6, 6, 6},
		{"--n=3", 3, 2, 6},
		{"--workers=8 --seats=3 --n=16 --k=10", 16, 10, 8},
		{"--workers=4 --n=6 --min-workers=6 --key=k", 6, 4, 6},
		{"--workers=0 --join=a:1 --seats=3 --n=8 --k=5", 8, 5, 2},
		{"--workers=0 --join=a:1", 0, 0, 1},
		{"--workers=0 --join=a:1 --min-workers=3 --k=2", 0, 2, 3},
		{"--placement=local", 0, 0, 0},
	} {
		f := parseValid(t, test.args, lists{})
		if f.N != test.n || f.K != test.k || f.MinWork != test.minWork || f.Threads != 2 {
			t.Errorf("%q: n %d, k %d, min-workers %d, threads %d; want %d, %d, %d, 2",
				test.args, f.N, f.K, f.MinWork, f.Threads, test.n, test.k, test.minWork)
		}
	}
	// A rule that places a layer needs workers, whatever the rest does.
	if f := parseValid(t, "--placement=local", lists{Placements: []placementRule{{Layer: "fc1", Placement: "resident"}}}); f.N != 6 || f.K != 4 {
		t.Errorf("local with a resident rule: n %d, k %d, want 6, 4", f.N, f.K)
	}
}

func parseValid(t *testing.T, args string, l lists) *runFlags {
	t.Helper()
	r, err := parseRun(t, strings.Fields(args)...)
	if err == nil {
		err = r.validate(2, l)
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return &r.runFlags
}

func TestValidateRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--epochs=0":                           "--epochs 0: want at least 1",
		"--steps=-1":                           "--steps -1: want at least 0",
		"--batch=0":                            "--batch 0: want at least 1",
		"--accumulate=0":                       "--accumulate 0: want at least 1",
		"--threads=-1":                         "--threads -1: want at least 0",
		"--drift-every=-1":                     "--drift-every -1: want at least 0",
		"--max-condition=0.5":                  "--max-condition 0.5: want at least 1, or 0 for no limit",
		"--max-condition=5 --survivors=random": "--max-condition and --survivors random: choose one",
		"--drift-limit=0":                      "--drift-limit 0: want a number above 0",
		"--checkpoint-every=-2":                "--checkpoint-every -2: want at least 0",
		"--lr=-1":                              "--lr -1: want a finite number from 0",
		"--lr=nan":                             "--lr NaN",
		"--weight-decay=inf":                   "--weight-decay +Inf",
		"--momentum=1":                         "--momentum 1: want from 0 to below 1",
		"--cycle-momentum=0.5":                 "--cycle-momentum 0.5: want from 0 to --momentum 0.9, and --schedule one-cycle",
		"--schedule=one-cycle --cycle-momentum=0.95": "--cycle-momentum 0.95: want from 0 to --momentum 0.9",
		"--schedule=one-cycle --cycle-momentum=nan":  "--cycle-momentum NaN",
		"--seats=0":                          "--seats 0: want 1 to 64",
		"--seats=65":                         "--seats 65: want 1 to 64",
		"--n=7":                              "--n 7: want at most 6, --workers 6 times --seats 1",
		"--workers=4 --seats=2 --n=9":        "--n 9: want at most 8, --workers 4 times --seats 2",
		"--pace=nan":                         "--pace NaN",
		"--wait=-3s":                         "--wait -3s",
		"--workers=65":                       "--workers 65: want at most 64",
		"--workers=0":                        "--workers 0 without --join",
		"--k=7":                              "--k 7: want 1 to 6",
		"--k=-1":                             "--k -1: want 1 to 6",
		"--code=uncoded --k=3":               "--k 3: --code uncoded needs all 6 shards",
		"--n=2 --k=3":                        "--k 3: want 1 to 2",
		"--mirror=ftp://a/b":                 `--mirror "ftp://a/b": want the address of a folder`,
		"--mirror=https:///b":                `--mirror "https:///b": want`,
		"--mirror=%zz":                       `--mirror "%zz": want`,
		"--mirror=http://a --offline":        "--mirror and --offline: choose one",
		"--mirror=http://a --data-dir=b":     "--mirror and --data-dir: choose one",
		"--ema=-0.1":                         "--ema -0.1: want from 0 to below 1",
		"--ema=nan":                          "--ema NaN: want",
		"--no-decay=[":                       `--no-decay "[": want a pattern of names`,
		"--no-decay=":                        `--no-decay "": want a pattern of names`,
		"--init=f --init-except=[":           `--init-except "[": want a pattern of names`,
		"--init-except=fc.*":                 "--init-except without --init",
		"--record=a --replay=b":              "choose one",
		"--replay=b --survivors=random":      "choose one",
		"--placement=gradient":               "--placement gradient: not part of this version",
		"--placement=cloud":                  `--placement "cloud": choose`,
		"--inject=kill:7@step=1":             "only 6 workers",
		"--inject=kill:1@step=1 --workers=0": "--workers 0 without --join",
		"--losses=-1":                        "--losses -1: want at least 0",
	} {
		r, err := parseRun(t, strings.Fields(args)...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		if err := r.validate(2, lists{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", args, err, want)
		}
	}
}

func TestValidateRefusesRules(t *testing.T) {
	for want, rule := range map[string]placementRule{
		`placements, entry 1: placement "": choose`:            {Layer: "fc1"},
		`placements, entry 1: placement gradient: not part of`: {Layer: "fc1", Placement: "gradient"},
		`placements, entry 1: m 2, p 0, q 0: want numbers of`:  {Layer: "fc1", Placement: "batch", M: 2},
		`placements, entry 1: m 0, p -1, q 3: want numbers of`: {Layer: "fc1", Placement: "shipped", P: -1, Q: 3},
		`placements, entry 1: layer "[": want a pattern of`:    {Layer: "[", Placement: "local"},
		`placements, entry 1: k -1: want at least 1`:           {Layer: "fc1", Placement: "resident", K: -1},
		`placements, entry 1: layer "": want a pattern of`:     {Placement: "resident"},
		`placements, entry 1: gradient "far": choose one of`:   {Layer: "fc1", Placement: "batch", Gradient: "far"},
		`gradient "workers": only placement batch has one`:     {Layer: "fc1", Placement: "resident", Gradient: "workers"},
		`a.yaml:7: placements: k -2: want at least 1`:          {Layer: "fc1", Placement: "resident", K: -2, at: "a.yaml:7"},
	} {
		r, err := parseRun(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.validate(2, lists{Placements: []placementRule{rule}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", rule, err, want)
		}
	}
}

func TestValidateRefusesGroups(t *testing.T) {
	x, negative, zero := 0.1, -0.1, 0.0
	for want, group := range map[string]groupRule{
		`groups, entry 1: params "": want a pattern`:     {LR: &x},
		`groups, entry 1: params "[": want a pattern`:    {Params: "[", LR: &x},
		`groups, entry 1: lr 0: want a finite number`:    {Params: "*", LR: &zero},
		`groups, entry 1: lr -0.1: want a finite number`: {Params: "*", LR: &negative},
		`groups, entry 1: weight-decay -0.1: want a fin`: {Params: "*", WeightDecay: &negative},
		`groups, entry 1: freeze: a parameter that is n`: {Params: "*", WeightDecay: &zero, Freeze: true},
		`groups, entry 1: want lr, weight-decay or free`: {Params: "*"},
	} {
		r, err := parseRun(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.validate(2, lists{Groups: []groupRule{group}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", group, err, want)
		}
	}
}
