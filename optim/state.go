package optim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State is what an optimiser remembers between steps.
type State struct {
	Updates int      // updates made so far
	Tensors []Tensor // sorted by name
}

// Tensor is one buffer of an optimiser. Its name is that of the parameter, a
// dot and the buffer's name in PyTorch: "fc1.weight.momentum_buffer".
type Tensor struct {
	Name string
	Data []float32
}

// Names of the buffers, as in PyTorch.
const (
	MomentumBuffer = "momentum_buffer" // SGD, RMSProp: the velocity
	ExpAvg         = "exp_avg"         // Adam, LAMB: m
	ExpAvgSq       = "exp_avg_sq"      // Adam, LAMB: s
	MaxExpAvgSq    = "max_exp_avg_sq"  // AMSGrad: the largest s
	SquareAvg      = "square_avg"      // RMSProp: s
	Sum            = "sum"             // Adagrad: s
	Average        = "ema"             // EMA
)

// memory holds the buffers of every parameter that an optimiser has seen.
type memory struct {
	owner     string   // for errors: "SGD"
	buffers   []string // names of the buffers of each parameter
	gradients bool     // parameters must have a gradient
	settings  func(param string) settings
	slots     map[string]*slot
	updates   int
	round     int // number of the current call, to notice a parameter given twice
}

// slot is what is known of a parameter.
type slot struct {
	settings
	size int
	data [][]float32 // in the order of memory.buffers, each of that size
	born int         // the call that made it, 0 if it was loaded
	seen int
}

func newMemory(owner string, of func(param string) settings, buffers ...string) memory {
	return memory{owner: owner, buffers: buffers, gradients: true, settings: of, slots: make(map[string]*slot)}
}

func (m *memory) newSlot(param string, born int) *slot {
	return &slot{settings: m.settings(param), data: make([][]float32, len(m.buffers)), born: born}
}

// prepare checks the parameters and makes zeroed buffers for the new ones. If
// it fails nothing has changed.
func (m *memory) prepare(step int, params []Param) error {
	m.round++
	for _, p := range params {
		if err := m.see(p); err != nil {
			maps.DeleteFunc(m.slots, func(_ string, s *slot) bool { return s.born == m.round })
			return fmt.Errorf("optim: %s: step %d: %w", m.owner, step, err)
		}
	}
	for _, p := range params {
		if s := m.slots[p.Name]; s.born == m.round {
			for i := range s.data {
				s.data[i] = make([]float32, len(p.Value))
			}
		}
	}
	return nil
}

// see checks one parameter and makes a slot for it.
func (m *memory) see(p Param) error {
	s, known := m.slots[p.Name]
	switch {
	case p.Name == "":
		return errors.New("parameter without a name")
	case m.gradients && len(p.Grad) != len(p.Value):
		return fmt.Errorf("parameter %s has %d values and %d gradients", p.Name, len(p.Value), len(p.Grad))
	case known && s.seen == m.round:
		return fmt.Errorf("parameter %s is given twice", p.Name)
	case known && s.size != len(p.Value):
		return fmt.Errorf("parameter %s has %d values, its state %d", p.Name, len(p.Value), s.size)
	case !known:
		s = m.newSlot(p.Name, m.round)
		s.size = len(p.Value)
		m.slots[p.Name] = s
	}
	s.seen = m.round
	return nil
}

func (m *memory) state() State {
	st := State{Updates: m.updates}
	for name, s := range m.slots {
		for i, b := range m.buffers {
			st.Tensors = append(st.Tensors, Tensor{Name: name + "." + b, Data: slices.Clone(s.data[i])})
		}
	}
	slices.SortFunc(st.Tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return st
}

// load replaces the buffers. Every problem is listed, and then nothing changes.
func (m *memory) load(st State) error {
	var p problems
	p.want(st.Updates >= 0, "%d updates", st.Updates)
	slots := make(map[string]*slot)
	for _, t := range st.Tensors {
		dot := strings.LastIndexByte(t.Name, '.')
		i := slices.Index(m.buffers, t.Name[dot+1:])
		if dot < 1 || i < 0 {
			p.want(false, "unknown tensor %q", t.Name)
			continue
		}
		s := slots[t.Name[:dot]]
		if s == nil {
			s = m.newSlot(t.Name[:dot], 0)
			slots[t.Name[:dot]] = s
		}
		p.want(s.data[i] == nil, "tensor %q is given twice", t.Name)
		s.size, s.data[i] = len(t.Data), append(make([]float32, 0, len(t.Data)), t.Data...)
	}
	p = append(p, m.incomplete(slots)...)
	if err := p.err(m.owner + ": load state"); err != nil {
		return err
	}
	m.slots, m.updates = slots, st.Updates
	return nil
}

// incomplete lists buffers that are missing or of unequal length.
func (m *memory) incomplete(slots map[string]*slot) []string {
	var problems []string
	for name, s := range slots {
		for i, b := range m.buffers {
			if s.data[i] == nil {
				problems = append(problems, fmt.Sprintf("tensor %q is missing", name+"."+b))
			} else if first := s.data[0]; first != nil && len(s.data[i]) != len(first) {
				problems = append(problems, fmt.Sprintf("tensor %q has %d values, %q %d", name+"."+b, len(s.data[i]), name+"."+m.buffers[0], len(first)))
			}
		}
	}
	slices.Sort(problems)
	return problems
}
