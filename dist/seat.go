package dist

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/coda-ml/coda/coded"
)

// maxSeats bounds the seats of a worker.
const maxSeats = 64

// seat is a place of a worker in the codes of a run: it has a connection of the
// coordinator and shards of its own. The worker's mu guards it.
type seat struct {
	number  int // from 0
	session *session
	kept    map[string]parked // by layer, of a session that broke
	keptRun string
	saved   map[string]savedShard // by layer, of the last checkpoint of a run
	savedOf string                // the run
	expire  *time.Timer
}

// parked is a shard that waits for its coordinator to come back.
type parked struct {
	layer  coded.Layer
	held   Held
	tensor []coded.Tensor
}

// seatName is the coordinator's name for a seat of a worker: w1, w1/2, w1/3. A
// member's name has no slash.
func seatName(worker string, seat int) string {
	if seat == 0 {
		return worker
	}
	return worker + "/" + strconv.Itoa(seat+1)
}

// seatOf returns the seat that a peer names.
func (w *Worker) seatOf(number int) (*seat, error) {
	if number < 0 || number >= len(w.seats) {
		return nil, fmt.Errorf("%s has %d seats, there is no seat %d", w.cfg.Name, len(w.seats), number+1)
	}
	return w.seats[number], nil
}

// run returns the run that is served, empty if none. It needs mu.
func (w *Worker) run() string {
	for _, s := range w.seats {
		if s.session != nil {
			return s.session.run
		}
	}
	return ""
}

// leaveOthers gives up what is kept of other runs. It needs mu.
func (w *Worker) leaveOthers(run string) {
	for _, s := range w.seats {
		if s.keptRun != run {
			s.forget()
		}
		if s.savedOf != run {
			s.saved = nil
		}
	}
}

// begin makes s the session of the seat, with what has been kept for it.
func (t *seat) begin(s *session) {
	for _, p := range t.kept {
		s.restore(p)
	}
	t.forget()
	s.offer = t.offers()
	t.session = s
}

// end takes the session out of the seat. If it broke, its shards are kept.
func (t *seat) end(w *Worker, broke bool) {
	s := t.session
	t.session = nil
	if !broke {
		t.saved = nil
		return
	}
	t.kept, t.keptRun = s.park(), s.run
	t.expire = time.AfterFunc(w.cfg.Keep, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.drop()
	})
}

// drop gives up the shards that nobody has come back for.
func (t *seat) drop() {
	t.forget()
	t.saved = nil
}

func (t *seat) forget() {
	if t.expire != nil {
		t.expire.Stop()
	}
	t.kept, t.keptRun, t.expire = nil, "", nil
}

// offers describes the copies, in the order of their layers.
func (t *seat) offers() (list []Held) {
	for _, name := range slices.Sorted(maps.Keys(t.saved)) {
		c := t.saved[name]
		list = append(list, Held{Layer: name, Slot: c.slot, Saved: c.number})
	}
	return list
}

// factor returns how much slower a round's products are than usual, if a seat has
// asked already: the device is one.
func (w *Worker) factor(run string, round uint64) (factor float64, known bool) {
	w.mu.Lock()
	var sessions []*session
	for _, t := range w.seats {
		if t.session != nil && t.session.run == run {
			sessions = append(sessions, t.session)
		}
	}
	w.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		factor, known = s.factors[round]
		s.mu.Unlock()
		if known {
			break
		}
	}
	return factor, known
}

var errReplaced = errors.New("replaced by a new connection of the same run")
