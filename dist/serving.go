package dist

import "slices"

// Serving returns the names of the workers that can be asked for products of
// every layer that has been placed, by slot. One that is silent is among them
// until it has fallen behind.
func (c *Coordinator) Serving() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, l := range c.slots {
		if l == nil || len(c.order) == 0 {
			continue
		}
		if !slices.ContainsFunc(c.order, func(layer string) bool { return !l.shards[layer].fresh(c.version) }) {
			names = append(names, l.name)
		}
	}
	return names
}
