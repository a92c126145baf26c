package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
)

// joinTime bounds how long workers are waited for before the first step.
const joinTime = 30 * time.Second

// cluster is the coordinator's side of a run: its membership, the workers that
// it started here, and the faults that are injected into them.
type cluster struct {
	flags       *runFlags
	keyDir      string // temporary folder of the run's own key
	keyFile     string
	key         dist.Key
	members     *dist.Membership
	coordinator *dist.Coordinator
	workers     *localWorkers
	faults      []fault
	thaws       []*time.Timer
	emit        func(any) error
	low         atomic.Bool // no spare worker is left: write a checkpoint
	record      io.Closer

	used []int // slots whose results were used in the step under way
}

// joinCluster starts the gossip of this process.
func (r *run) joinCluster(ctx context.Context) (err error) {
	c := &cluster{flags: r.runFlags}
	r.cluster = c
	if err := c.prepareKey(); err != nil {
		return err
	}
	c.members, err = dist.Join(ctx, dist.MembershipConfig{
		Name: "coordinator", Role: dist.RoleCoordinator, Bind: r.Bind, Advertise: r.Advertise,
		Seeds: r.Join, Key: c.key, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("--bind %s: %w", r.Bind, err)
	}
	return nil
}

// prepareKey reads the cluster's key. A run that only has workers of its own
// makes one for itself, in a folder that only its user can read.
func (c *cluster) prepareKey() (err error) {
	if c.flags.Key != "" {
		c.keyFile = c.flags.Key
		c.key, err = dist.LoadKey(c.keyFile)
		if err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		return nil
	}
	if len(c.flags.Join) > 0 && c.flags.Workers == 0 {
		return nil // on loopback a key is not required
	}
	if c.keyDir, err = os.MkdirTemp("", "coda-key-"); err != nil {
		return fmt.Errorf("cluster key: %w", err)
	}
	c.key = dist.NewKey()
	c.keyFile = filepath.Join(c.keyDir, "key")
	return c.key.WriteKeyFile(c.keyFile)
}
