package coded

import "container/list"

// setCache keeps what was computed of the sets of tasks that were used last. Its owner
// guards it.
type setCache[T any] struct {
	tasks, size int
	entries     map[string]*list.Element // of setEntry[T], by the bits of the set
	order       *list.List               // the last used first
	key         []byte                   // of the set that find was asked for last
}

type setEntry[T any] struct {
	key   string
	value T
}

// newSetCache returns a cache for so many sets of tasks 0 to tasks-1.
func newSetCache[T any](tasks, size int) setCache[T] {
	return setCache[T]{tasks: tasks, size: size, entries: map[string]*list.Element{}, order: list.New(), key: make([]byte, (tasks+7)/8)}
}

// find returns what is known of a set, listed in any order. Valid is false if there is
// no such set: of a task that the code does not have, or twice the same.
func (c *setCache[T]) find(have []int) (value T, known, valid bool) {
	clear(c.key)
	for _, t := range have {
		if t < 0 || t >= c.tasks || c.key[t/8]&(1<<(t%8)) != 0 {
			return value, false, false
		}
		c.key[t/8] |= 1 << (t % 8)
	}
	e, known := c.entries[string(c.key)]
	if !known {
		return value, false, true
	}
	c.order.MoveToFront(e)
	return e.Value.(setEntry[T]).value, true, true
}

// keep keeps a value for the set that find did not know, in place of that of the set
// that was not used for longest if there are too many.
func (c *setCache[T]) keep(value T) {
	if c.order.Len() >= c.size {
		last := c.order.Back()
		delete(c.entries, last.Value.(setEntry[T]).key)
		c.order.Remove(last)
	}
	key := string(c.key)
	c.entries[key] = c.order.PushFront(setEntry[T]{key, value})
}
