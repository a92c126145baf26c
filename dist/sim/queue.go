package sim

// event says that the next result of a worker reaches the coordinator, unless it is
// due at another time meanwhile; or, with the number of workers added to the
// worker's, that it is to be looked after.
type event struct {
	at     float64
	worker int32
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.worker < f.worker }

// events is a heap of branching four: half as deep as a binary one, and a node's
// children lie side by side.
type events []event

func (q *events) push(e event) {
	*q = append(*q, e)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// pop removes the first event.
func (q *events) pop() {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	if last > 0 {
		q.replace(e)
	}
}

// replace puts an event in the place of the first one.
func (q *events) replace(e event) {
	h := *q
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}
