package optim

import (
	"fmt"
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

// Names of the buffers.
const (
	MomentumBuffer = "momentum_buffer" // SGD: v
	ExpAvg         = "exp_avg"         // Adam: m
	ExpAvgSq       = "exp_avg_sq"      // Adam: s
)

// memory holds the buffers of every parameter that an optimiser has seen.
type memory struct {
	owner   string   // for errors: "SGD"
	buffers []string // names of the buffers of each parameter
	slots   map[string]*slot
	updates int
	round   int // number of the current call, to notice a parameter given twice
}

type slot struct {
	data [][]float32 // in the order of memory.buffers
	seen int
}

func newMemory(owner string, buffers ...string) memory {
	return memory{owner: owner, buffers: buffers, slots: make(map[string]*slot)}
}

// prepare checks the parameters and makes zeroed buffers for the new ones.
func (m *memory) prepare(step int, params []Param) error {
	if step < 1 {
		return fmt.Errorf("optim: %s: step %d, want at least 1", m.owner, step)
	}
	m.round++
	for _, p := range params {
		s, known := m.slots[p.Name]
		switch {
		case p.Name == "":
			return fmt.Errorf("optim: %s: step %d: parameter without a name", m.owner, step)
		case len(p.Grad) != len(p.Value):
			return fmt.Errorf("optim: %s: step %d: parameter %s has %d values and %d gradients", m.owner, step, p.Name, len(p.Value), len(p.Grad))
		case known && s.seen == m.round:
			return fmt.Errorf("optim: %s: step %d: parameter %s is given twice", m.owner, step, p.Name)
		case known && len(m.buffers) > 0 && len(s.data[0]) != len(p.Value):
			return fmt.Errorf("optim: %s: step %d: parameter %s has %d values, its state %d", m.owner, step, p.Name, len(p.Value), len(s.data[0]))
		}
		if !known {
			s = &slot{data: make([][]float32, len(m.buffers))}
			for i := range s.data {
				s.data[i] = make([]float32, len(p.Value))
			}
			m.slots[p.Name] = s
		}
		s.seen = m.round
	}
	return nil
}

// buffer returns a buffer of a parameter that prepare has seen.
func (m *memory) buffer(param string, i int) []float32 { return m.slots[param].data[i] }

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
	var problems []string
	if st.Updates < 0 {
		problems = append(problems, fmt.Sprintf("%d updates", st.Updates))
	}
	slots := make(map[string]*slot)
	for _, t := range st.Tensors {
		dot := strings.LastIndexByte(t.Name, '.')
		i := slices.Index(m.buffers, t.Name[dot+1:])
		if dot < 1 || i < 0 {
			problems = append(problems, fmt.Sprintf("unknown tensor %q", t.Name))
			continue
		}
		s := slots[t.Name[:dot]]
		if s == nil {
			s = &slot{data: make([][]float32, len(m.buffers))}
			slots[t.Name[:dot]] = s
		}
		if s.data[i] != nil {
			problems = append(problems, fmt.Sprintf("tensor %q is given twice", t.Name))
		}
		s.data[i] = append(make([]float32, 0, len(t.Data)), t.Data...)
	}
	problems = append(problems, m.incomplete(slots)...)
	if err := invalid(m.owner+": load state", problems); err != nil {
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
