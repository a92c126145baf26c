package dist

import "github.com/coda-ml/coda/coded"

// opLog is the totally ordered list of what every shard must be told: the kept
// operands and the updates. It reaches back over the last updates, as many as reach
// says, and what came after them, so that its memory is bounded whatever the workers do. An
// entry has a position that never changes; a worker's connection has a cursor,
// the position of the next entry to send. A cursor before the log's base has
// lost entries for good. It is not safe for concurrent use.
type opLog struct {
	keep    int // updates at most
	least   int // updates, however large their operands are
	entries []entry
	base    uint64 // position of entries[0]
	since   int    // version of a shard that has applied everything before base
	updates int    // updates among the entries
	last    uint64 // position after the newest update
	bytes   int    // of the operands of the newest update
	open    int    // bytes of the operands since
}

// entry is an operand or an update.
type entry struct {
	layer   string
	product coded.Product
	step    int
	round   uint64   // 0 if no result is wanted
	operand *counted // nil for an update
	update  coded.Update
	version int // of a shard that has applied the update; or that the operand is for
}

// logBytes is what the operands of the log's updates may take: beyond it, a worker that
// has fallen behind is repaired, which moves fewer bytes as a rule, rather than told.
const logBytes = 512 << 20

// reach returns how many updates the log is to reach back, when all have operands as
// large as the newest one's.
func (o *opLog) reach() int { return min(o.keep, max(o.least, logBytes/max(1, o.bytes))) }

func (e *entry) isUpdate() bool { return e.operand == nil }

// end returns the position of the next entry.
func (o *opLog) end() uint64 { return o.base + uint64(len(o.entries)) }

// at returns the entry at a position, nil if it is gone or not there yet. It is
// borrowed until the next add.
func (o *opLog) at(pos uint64) *entry {
	if pos < o.base || pos >= o.end() {
		return nil
	}
	return &o.entries[pos-o.base]
}

// add appends an entry, whose operand reference becomes the log's, and drops
// what is too old. It returns the entry's position.
func (o *opLog) add(e entry) uint64 {
	pos := o.end()
	o.entries = append(o.entries, e)
	if e.isUpdate() {
		o.updates++
		o.last = pos + 1
		o.bytes, o.open = o.open, 0
		for o.updates > o.reach() {
			o.dropUpdate()
		}
	} else {
		o.open += 4 * len(e.operand.tensor.Data)
	}
	return pos
}

// dropUpdate drops the entries up to and including the oldest update.
func (o *opLog) dropUpdate() {
	n := 0
	for {
		e := &o.entries[n]
		n++
		if e.isUpdate() {
			o.since = e.version
			break
		}
		e.operand.release()
	}
	rest := copy(o.entries, o.entries[n:])
	clear(o.entries[rest:])
	o.entries = o.entries[:rest]
	o.base += uint64(n)
	o.updates--
}

// after returns the position from which a shard of the given version must be
// told everything, if the log still reaches back to it.
func (o *opLog) after(version int) (pos uint64, ok bool) {
	if version == o.since {
		return o.base, true
	}
	for i := range o.entries {
		if e := &o.entries[i]; e.isUpdate() && e.version == version {
			return o.base + uint64(i) + 1, true
		}
	}
	return 0, false
}

// newest returns the position after the newest update: what follows belongs
// to the step under way.
func (o *opLog) newest() uint64 { return max(o.last, o.base) }

// clear drops everything.
func (o *opLog) clear() {
	for i := range o.entries {
		o.entries[i].operand.release()
	}
	clear(o.entries)
	o.base, o.entries, o.updates = o.end(), nil, 0
}
