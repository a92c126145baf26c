package plan

import "math"

// spend lets the coordinator work for so many seconds of a machine of its own. While
// workers beside it are at products or at updates, it has what they leave of the cores,
// though no less than an equal part.
func (c *cluster) spend(seconds float64) {
	busy := c.busy()
	for seconds > 0 {
		rate, next := c.left(busy)
		if took := seconds / rate; c.now+took <= next {
			c.now += took
			return
		}
		seconds -= (next - c.now) * rate
		c.now = next
	}
}

// busy returns until when each worker beside the coordinator has something to do.
func (c *cluster) busy() []float64 {
	until := make([]float64, len(c.Beside))
	for i, w := range c.Beside {
		until[i] = c.free[w]
		for _, o := range c.owed[w] {
			until[i] = max(until[i], o.arrives) + o.seconds
		}
	}
	return until
}

// left is the part of its machine that the coordinator has now, and until when.
func (c *cluster) left(busy []float64) (rate, until float64) {
	rate, until = 1, math.Inf(1)
	users := 1.0
	for i, w := range c.Beside {
		if busy[i] > c.now {
			rate -= c.Speeds[w] / c.Local
			users++
			until = min(until, busy[i])
		}
	}
	return max(rate, 1/users), until
}
