package dist

import "time"

// The speed of a worker is its work over its computing time, for the chunks of products
// and the gradients that it has computed lately.
const (
	speedReports = 256 // of chunks and gradients, about so many
	speedKnown   = 32  // reports
	// relearnAfter is how long the speed of a worker without a slot is believed: it
	// may have become faster, and would never be given a slot to show it.
	relearnAfter = 5 * time.Minute
	// maxSpeeds bounds the workers whose speed is remembered.
	maxSpeeds = 1024
)

// pace is what is known of a worker's speed.
type pace struct {
	work, seconds float64 // of the last reports, older ones counting less
	reports       int
	last          time.Time
}

// measure notes the work that a worker reports.
func (c *Coordinator) measure(host string, work float64, took time.Duration) {
	p := c.paces[host]
	if p == nil {
		if len(c.paces) >= maxSpeeds {
			clear(c.paces)
		}
		p = &pace{}
		c.paces[host] = p
	}
	const fade = 1 - 1./speedReports
	p.work, p.seconds = fade*p.work+work, fade*p.seconds+took.Seconds()
	p.reports++
	p.last = time.Now()
}

// known returns the speed of a worker if there is evidence of it.
func (c *Coordinator) known(host string) (speed float64, ok bool) {
	p := c.paces[host]
	if p == nil || p.reports < speedKnown || p.work <= 0 || p.seconds <= 0 {
		return 0, false
	}
	if time.Since(p.last) > relearnAfter {
		*p = pace{}
		return 0, false
	}
	return p.work / p.seconds, true
}

// speed returns the speed of a worker; where it is not known, the mean of those that
// are connected and known, and 1 if there is none.
func (c *Coordinator) speed(host string) float64 {
	if v, ok := c.known(host); ok {
		return v
	}
	sum, n := 0., 0.
	seen := map[string]bool{}
	for l := range c.links() {
		if v, ok := c.known(l.host); ok && !seen[l.host] {
			sum, n = sum+v, n+1
		}
		seen[l.host] = true
	}
	if n == 0 {
		return 1
	}
	return sum / n
}
