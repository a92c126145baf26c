package optim

// PlateauConfig is the configuration of NewPlateau.
type PlateauConfig struct {
	Factor    float64 // of the learning rate when there is no progress, below 1; 0 means 0.1
	Patience  int     // epochs in a row without progress that are allowed (PyTorch: 10)
	Threshold float64 // progress is to be better than the best by more than this part of it (PyTorch: 1e-4)
	Cooldown  int     // epochs after a reduction that do not count
	Floor     float64 // smallest product of all factors
	Maximise  bool    // larger metrics are better
}

// Plateau reduces the learning rate when a metric stops getting better. It
// scales any schedule:
//
//	rate := plateau.Schedule(optim.Constant(0.1))
//	...
//	plateau.Observe(testLoss) // after each epoch
//
// Unlike other schedules these change with what was observed: Observe must not
// run at the same time as a schedule.
type Plateau struct {
	config PlateauConfig
	state  PlateauState
}

// PlateauState is what a Plateau remembers, as plain data for a checkpoint.
type PlateauState struct {
	Factor   float64 `json:"factor"` // of the learning rate by now
	Best     float64 `json:"best"`   // metric, if Seen
	Seen     bool    `json:"seen"`
	Bad      int     `json:"bad"`      // epochs without progress
	Cooldown int     `json:"cooldown"` // epochs that are still not to count
}

// NewPlateau returns a Plateau that has seen nothing, or an error that lists
// every problem of c.
func NewPlateau(c PlateauConfig) (*Plateau, error) {
	orDefault(&c.Factor, 0.1)
	var p problems
	p.within("factor", c.Factor, 1)
	p.want(c.Patience >= 0, "patience %d, want at least 0", c.Patience)
	p.within("threshold", c.Threshold, 1)
	p.want(c.Cooldown >= 0, "cooldown %d, want at least 0", c.Cooldown)
	p.want(c.Floor >= 0 && c.Floor <= 1, "floor %v, want from 0 to 1", c.Floor)
	if err := p.err("plateau"); err != nil {
		return nil, err
	}
	return &Plateau{config: c, state: PlateauState{Factor: 1}}, nil
}

// Schedule returns s times the factor of the moment.
func (p *Plateau) Schedule(s Schedule) Schedule {
	return func(step int) float64 { return s(step) * p.state.Factor }
}

// Observe takes the metric of an epoch and tells whether the learning rate was
// reduced. A metric that is not finite is no progress.
func (p *Plateau) Observe(metric float64) (reduced bool) {
	s := &p.state
	if p.better(metric) {
		s.Best, s.Seen, s.Bad = metric, true, 0
	} else {
		s.Bad++
	}
	if s.Cooldown > 0 {
		s.Cooldown--
		s.Bad = 0
	}
	if s.Bad <= p.config.Patience {
		return false
	}
	before := s.Factor
	s.Factor = max(s.Factor*p.config.Factor, p.config.Floor)
	s.Cooldown, s.Bad = p.config.Cooldown, 0
	return s.Factor < before
}

func (p *Plateau) better(metric float64) bool {
	switch best := p.state.Best; {
	case !finite(metric):
		return false
	case !p.state.Seen:
		return true
	case p.config.Maximise:
		return metric > best*(1+p.config.Threshold)
	default:
		return metric < best*(1-p.config.Threshold)
	}
}

// State returns what the Plateau remembers.
func (p *Plateau) State() PlateauState { return p.state }

// LoadState replaces what the Plateau remembers. A state that is refused
// changes nothing.
func (p *Plateau) LoadState(s PlateauState) error {
	var bad problems
	bad.want(s.Factor >= 0 && s.Factor <= 1, "factor %v, want from 0 to 1", s.Factor)
	bad.want(finite(s.Best), "best metric %v, want a finite number", s.Best)
	bad.want(s.Bad >= 0, "%d bad epochs, want at least 0", s.Bad)
	bad.want(s.Cooldown >= 0, "cooldown %d, want at least 0", s.Cooldown)
	if err := bad.err("plateau: load state"); err != nil {
		return err
	}
	p.state = s
	return nil
}
