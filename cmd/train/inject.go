package main

import (
	"fmt"
	"time"
)

// beforeStep injects the faults of a step.
func (c *cluster) beforeStep(step int) error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	if int64(step) <= c.reached.Load() {
		return nil // made again, from a checkpoint
	}
	c.reached.Store(int64(step))
	for _, f := range c.faults {
		if f.step != step {
			continue
		}
		for w := 1; w <= c.clusterOptions.workers; w++ {
			// '*' is everyone who is there; a restart is for those who are not.
			if !f.hits(w) || f.workers == nil && f.what != "restart" && c.workers.proc(w) == nil {
				continue
			}
			if err := c.inject(f, w); err != nil {
				return fmt.Errorf("--inject: step %d: %w", step, err)
			}
		}
	}
	return nil
}

func (c *cluster) inject(f fault, w int) error {
	switch f.what {
	case "kill":
		return c.workers.kill(w)
	case "restart":
		if c.workers.proc(w) != nil {
			if err := c.workers.kill(w); err != nil {
				return err
			}
		}
		return c.workers.start(w)
	case "partition":
		return c.workers.order(w, "cut "+f.pause.String())
	case "freeze":
		if err := c.workers.signal(w, stopSignal); err != nil {
			return err
		}
		c.thaws = append(c.thaws, time.AfterFunc(f.pause, func() {
			_ = c.workers.signal(w, continueSignal) // a worker killed meanwhile needs no thaw
		}))
	}
	return nil
}
