package dist

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// A record of a run lists every choice that the bits of its results depend on,
// so that a run of the same program with the same seed can make them again. It
// is one JSON object a line; the first says what it is:
//
//	{"record":"coda","version":1}
//	{"round":17,"layer":"fc1","product":1,"step":3,"sets":[[0,1,2,5]]}
//	{"fetch":1,"layer":"fc1","update":150,"sets":[[0,1,2,3]]}
//	{"repair":3,"layer":"fc1","slot":4,"update":150,"donors":[0,1,2,3,5],"weights":[..]}
//	{"rebuild":1,"layer":"fc1","update":160,"sets":[[0,1,2,3,4]]}
//
// Rounds are numbered from 1 as they were started. sets has for each chunk the
// slots that it was decoded from, in order, or one set when all chunks have the
// same. A fetch is known by its layer and the number of updates before it, since
// a replay need not make all of them: the recorded run may have written a
// checkpoint only because workers died. A repair was made from the donors' shards
// after that update, with weights[i] for donors[i]; a rebuild of all slots from
// those of its set.
type recordLine struct {
	Record  string        `json:"record,omitempty"`
	Version int           `json:"version,omitempty"`
	Round   uint64        `json:"round,omitempty"`
	Fetch   int           `json:"fetch,omitempty"`
	Repair  int           `json:"repair,omitempty"`
	Rebuild int           `json:"rebuild,omitempty"`
	Layer   string        `json:"layer,omitempty"`
	Product coded.Product `json:"product,omitempty"`
	Step    int           `json:"step,omitempty"`
	Sets    [][]int       `json:"sets,omitempty"`
	Slot    int           `json:"slot,omitempty"`
	Update  int           `json:"update,omitempty"`
	Donors  []int         `json:"donors,omitempty"`
	Weights []float64     `json:"weights,omitempty"`
}

const (
	recordMagic   = "coda"
	recordVersion = 1
	maxRecordLine = 1 << 20
)

// Recorder writes the record of a run. A coordinator uses it under its lock;
// Flush is called with every update and by Close.
type Recorder struct {
	w       *bufio.Writer
	err     error
	fetched int
	repairs int
	rebuilt int
}

// NewRecorder returns a recorder that writes to w, which it does not close.
func NewRecorder(w io.Writer) *Recorder {
	r := &Recorder{w: bufio.NewWriter(w)}
	r.write(recordLine{Record: recordMagic, Version: recordVersion})
	return r
}

func (r *Recorder) write(l recordLine) {
	if r.err != nil {
		return
	}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.w.Write(append(b, '\n'))
	}
	r.err = err
}

func (r *Recorder) round(id uint64, layer string, p coded.Product, step int, sets [][]int) {
	if same(sets) {
		sets = sets[:1]
	}
	r.write(recordLine{Round: id, Layer: layer, Product: p, Step: step, Sets: sets})
}

func same(sets [][]int) bool {
	for _, s := range sets {
		if !slices.Equal(s, sets[0]) {
			return false
		}
	}
	return true
}

func (r *Recorder) fetch(layer string, update int, set []int) {
	r.fetched++
	r.write(recordLine{Fetch: r.fetched, Layer: layer, Update: update, Sets: [][]int{set}})
}

func (r *Recorder) repair(rep *repair) {
	r.repairs++
	r.write(recordLine{
		Repair: r.repairs, Layer: rep.layer, Slot: rep.slot, Update: rep.version,
		Donors: rep.donors, Weights: rep.weights,
	})
}

func (r *Recorder) rebuild(layer string, update int, set []int) {
	r.rebuilt++
	r.write(recordLine{Rebuild: r.rebuilt, Layer: layer, Update: update, Sets: [][]int{set}})
}

// Flush writes out what is buffered and returns the first error so far.
func (r *Recorder) Flush() error {
	if r.err == nil {
		r.err = r.w.Flush()
	}
	if r.err != nil {
		return fmt.Errorf("dist: record: %w", r.err)
	}
	return nil
}

// Replay holds the choices of a recorded run.
type Replay struct {
	rounds  map[uint64]recordLine
	last    uint64
	fetches map[layerUpdate][][]int // the sets, in order
	mends   map[int][]recordLine    // by update, in order
	redone  map[layerUpdate][]int   // rebuilds: the set
}

// layerUpdate is a layer after a number of updates.
type layerUpdate struct {
	layer  string
	update int
}

// ReadReplay reads what a Recorder wrote. Its errors name the line.
func ReadReplay(r io.Reader) (*Replay, error) {
	p := &Replay{
		rounds: map[uint64]recordLine{}, fetches: map[layerUpdate][][]int{},
		mends: map[int][]recordLine{}, redone: map[layerUpdate][]int{},
	}
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRecordLine)
	n := 0
	for s.Scan() {
		n++
		if err := p.line(n, s.Bytes()); err != nil {
			return nil, fmt.Errorf("dist: replay: line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("dist: replay: line %d: %w", n+1, err)
	}
	if n == 0 {
		return nil, errors.New("dist: replay: the record is empty")
	}
	return p, nil
}

func (p *Replay) line(n int, b []byte) error {
	var l recordLine
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if n == 1 {
		if l.Record != recordMagic || l.Version != recordVersion {
			return fmt.Errorf("record %q of version %d, want %q of version %d", l.Record, l.Version, recordMagic, recordVersion)
		}
		return nil
	}
	for _, set := range append(l.Sets, l.Donors, []int{l.Slot}) {
		if !inRange(set, coded.MaxTasks) {
			return fmt.Errorf("slots %v, want 0 to %d", set, coded.MaxTasks-1)
		}
	}
	at := layerUpdate{l.Layer, l.Update}
	switch {
	case l.Round > 0 && len(l.Sets) > 0:
		p.rounds[l.Round] = l
		p.last = max(p.last, l.Round)
	case l.Fetch > 0 && len(l.Sets) == 1:
		p.fetches[at] = append(p.fetches[at], l.Sets[0])
	case l.Repair > 0 && len(l.Donors) > 0 && len(l.Donors) == len(l.Weights):
		p.mends[l.Update] = append(p.mends[l.Update], l)
	case l.Rebuild > 0 && len(l.Sets) == 1:
		p.redone[at] = l.Sets[0]
	default:
		return errors.New("neither a round with sets, a fetch or a rebuild with one set, nor a repair with donors and weights")
	}
	return nil
}

// round returns the sets of a round. Nil is for one that the recorded run gave
// up before it ended.
func (p *Replay) round(id uint64, layer string, product coded.Product, step int) ([][]int, error) {
	l, ok := p.rounds[id]
	switch {
	case !ok && id > p.last:
		return nil, fmt.Errorf("dist: replay: the record ends before round %d, the %s product of layer %s at step %d", id, product, layer, step)
	case !ok:
		return nil, nil
	case l.Layer != layer || l.Product != product || l.Step != step:
		return nil, fmt.Errorf("dist: replay: round %d is the %s product of layer %s at step %d, but was recorded as the %s product of layer %s at step %d",
			id, product, layer, step, l.Product, l.Layer, l.Step)
	}
	return l.Sets, nil
}

// fetch returns the set of a layer's nth fetch, from 0, after an update; of the
// last one that was recorded if there were fewer, nil if there was none.
func (p *Replay) fetch(layer string, update, nth int) []int {
	sets := p.fetches[layerUpdate{layer, update}]
	if len(sets) == 0 {
		return nil
	}
	return sets[min(nth, len(sets)-1)]
}

func (p *Replay) repairs(update int) []recordLine { return p.mends[update] }

// rebuilt returns the set that a layer was rebuilt from after an update, nil if
// it was not.
func (p *Replay) rebuilt(layer string, update int) []int {
	return p.redone[layerUpdate{layer, update}]
}
