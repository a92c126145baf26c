package main

import (
	"context"
	"fmt"

	"github.com/coda-ml/coda/dist"
)

// eachStranger tells of every node that is kept out for its version, once, until the
// context ends.
func eachStranger(ctx context.Context, members *dist.Membership, tell func(*dist.VersionError)) {
	changes, stop := members.Subscribe()
	defer stop()
	told := map[dist.VersionError]bool{}
	for {
		for _, s := range members.Strangers() {
			if !told[*s] {
				told[*s] = true
				tell(s)
			}
		}
		select {
		case _, open := <-changes:
			if !open {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// stateRefused is that of a node of another version, which never joins.
const stateRefused = "refused"

// tellStrangers reports the nodes of other versions as workers that are refused.
func (c *cluster) tellStrangers(ctx context.Context) {
	eachStranger(ctx, c.members, func(s *dist.VersionError) {
		reason := fmt.Sprintf("at %s: it speaks version %d of the protocol, this program version %d", s.Addr, s.Theirs, s.Ours)
		c.report(workerEvent{"worker", s.Node, stateRefused, int(c.reached.Load()), reason})
	})
}

// whyNobody adds to the error of a wait for workers what is known of the cause: who came
// and was of another version, or why nobody has answered.
func (c *cluster) whyNobody(err error) error {
	if unreached := c.members.Unreached(); unreached != nil {
		return fmt.Errorf("%w; %w", err, unreached)
	}
	const most = 3
	strangers := c.members.Strangers()
	for _, s := range strangers[:min(len(strangers), most)] {
		err = fmt.Errorf("%w; %w", err, s)
	}
	return err
}
