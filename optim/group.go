package optim

import "path"

// Group gives some parameters settings of their own. Of several groups that
// match a parameter the first one counts; a parameter that none matches has the
// optimiser's settings.
type Group struct {
	// Match is a pattern of names as in path.Match, in which * also stands for
	// dots: "*.bias", "layer?.*", "fc[12].weight".
	Match string
	// Func decides instead of Match.
	Func func(name string) bool

	LRScale float64 // factor of the learning rate; 0 means 1 (a frozen parameter is nn.Param's matter)
	Decay   float64 // weight decay instead of the optimiser's; 0 means the optimiser's
	NoDecay bool    // no weight decay, as if every Param said so
}

func (g Group) problems(name string) problems {
	var p problems
	_, err := path.Match(g.Match, "")
	p.want(err == nil, "%s: match %q is not a pattern", name, g.Match)
	p.want((g.Match == "") != (g.Func == nil), "%s: want either a match or a function", name)
	p.want(!g.NoDecay || g.Decay == 0, "%s: both weight decay %v and no decay", name, g.Decay)
	p.atLeastZero(name+": learning rate factor", g.LRScale)
	p.atLeastZero(name+": weight decay", g.Decay)
	return p
}

func (g Group) matches(name string) bool {
	if g.Func != nil {
		return g.Func(name)
	}
	ok, _ := path.Match(g.Match, name) // the pattern was checked
	return ok
}

// settings is what holds for one parameter.
type settings struct {
	lrScale float64
	decay   float64
	noDecay bool
}

// settings returns what holds for the parameter of this name.
func (c *common) settings(name string) settings {
	s := settings{lrScale: 1, decay: c.decay}
	for _, g := range c.groups {
		if !g.matches(name) {
			continue
		}
		if g.LRScale != 0 {
			s.lrScale = g.LRScale
		}
		if g.Decay != 0 {
			s.decay = g.Decay
		}
		if g.NoDecay {
			s.decay, s.noDecay = 0, true
		}
		break
	}
	return s
}
