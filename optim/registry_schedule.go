package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ScheduleConfig is the configuration of a schedule that is chosen by name.
// Every name uses LR, Steps and, but for one-cycle, the warm-up; the others are
// for the names that are given.
type ScheduleConfig struct {
	LR    float64 // learning rate at the start, after a warm-up; of one-cycle the peak
	Steps int     // of the whole run, warm-up included

	WarmUp     int     // steps of linear warm-up before the schedule; for warm-up 0 means a twentieth of Steps
	WarmUpFrom float64 // part of LR at the first step of the warm-up

	Every      int     // step: steps between reductions; 0 means a third of those after the warm-up
	Milestones []int   // multi-step: steps before reductions, counted after the warm-up; none means 1/2 and 3/4
	Gamma      float64 // step, multi-step, exponential: factor; 0 means 0.1, for exponential what reaches LR/100 at the end
	Floor      float64 // cosine: learning rate at the end

	Rise     float64 // one-cycle, as in OneCycleConfig
	Div      float64 // one-cycle
	FinalDiv float64 // one-cycle
	Linear   bool    // one-cycle

	Plateau PlateauConfig // plateau
}

// kind is a schedule of the registry.
type kind struct {
	uses []string
	make func(c ScheduleConfig, steps int) (Schedule, error) // steps after the warm-up
}

var kinds = map[string]kind{
	"constant": {[]string{warmUpSetting}, constantKind},
	"warm-up":  {[]string{warmUpSetting}, constantKind},
	"plateau":  {[]string{warmUpSetting, "plateau"}, constantKind},
	"step": {[]string{warmUpSetting, "every", "gamma"}, func(c ScheduleConfig, steps int) (Schedule, error) {
		if c.Every == 0 {
			c.Every = max(1, (steps+2)/3)
		}
		orDefault(&c.Gamma, 0.1)
		return Step(c.LR, c.Every, c.Gamma)
	}},
	"multi-step": {[]string{warmUpSetting, "milestones", "gamma"}, func(c ScheduleConfig, steps int) (Schedule, error) {
		if c.Milestones == nil {
			c.Milestones = slices.Compact([]int{max(1, steps/2), max(1, steps*3/4)})
		}
		orDefault(&c.Gamma, 0.1)
		return MultiStep(c.LR, c.Milestones, c.Gamma)
	}},
	"exponential": {[]string{warmUpSetting, "gamma"}, func(c ScheduleConfig, steps int) (Schedule, error) {
		orDefault(&c.Gamma, math.Pow(0.01, 1/float64(max(steps, 1))))
		return Exponential(c.LR, c.Gamma)
	}},
	"cosine": {[]string{warmUpSetting, "floor"}, func(c ScheduleConfig, steps int) (Schedule, error) {
		return Cosine(c.LR, c.Floor, steps)
	}},
	"one-cycle": {[]string{"rise", "div", "final div", "linear"}, func(c ScheduleConfig, steps int) (Schedule, error) {
		return OneCycle(OneCycleConfig{Peak: c.LR, Steps: steps, Rise: c.Rise, Div: c.Div, FinalDiv: c.FinalDiv, Linear: c.Linear})
	}},
}

const warmUpSetting = "warm-up"

func constantKind(c ScheduleConfig, _ int) (Schedule, error) {
	var p problems
	p.rate(c.LR)
	return Constant(c.LR), p.err("schedule")
}

// ScheduleNames lists the schedules that NewSchedule knows.
func ScheduleNames() []string { return slices.Sorted(maps.Keys(kinds)) }

// NewSchedule returns the schedule of a name, and for "plateau" the Plateau to
// which the metric of each epoch is to be given; otherwise it is nil. A setting
// that the schedule does not have is an error.
func NewSchedule(name string, c ScheduleConfig) (Schedule, *Plateau, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, nil, fmt.Errorf("optim: schedule %q: choose one of %s", name, strings.Join(ScheduleNames(), ", "))
	}
	if name == "warm-up" && c.WarmUp == 0 {
		c.WarmUp = max(1, c.Steps/20)
	}
	wrong := []error{c.problems(k.uses).err(name + " schedule")}
	s, err := k.make(c, max(c.Steps-c.WarmUp, 1))
	wrong = append(wrong, err)
	var plateau *Plateau
	if name == "plateau" {
		plateau, err = NewPlateau(c.Plateau)
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, nil, err
	}
	if plateau != nil {
		s = plateau.Schedule(s)
	}
	if c.WarmUp > 0 {
		if s, err = WarmUp(c.WarmUpFrom, c.WarmUp, s); err != nil {
			return nil, nil, err
		}
	}
	return s, plateau, nil
}

func (c ScheduleConfig) problems(uses []string) problems {
	p := unused([]setting{
		{warmUpSetting, c.WarmUp, c.WarmUp != 0}, {"every", c.Every, c.Every != 0}, {"milestones", c.Milestones, c.Milestones != nil},
		{"gamma", c.Gamma, c.Gamma != 0}, {"floor", c.Floor, c.Floor != 0}, {"rise", c.Rise, c.Rise != 0}, {"div", c.Div, c.Div != 0},
		{"final div", c.FinalDiv, c.FinalDiv != 0}, {"linear", c.Linear, c.Linear}, {"plateau", c.Plateau, c.Plateau != PlateauConfig{}},
	}, uses)
	p.steps(c.Steps)
	p.want(c.WarmUp >= 0 && c.WarmUp <= max(c.Steps-1, 1), "warm-up of %d steps, want at least 0 and less than the %d of the run", c.WarmUp, c.Steps)
	p.want(c.WarmUpFrom >= 0 && c.WarmUpFrom <= 1, "warm-up from %v, want from 0 to 1", c.WarmUpFrom)
	p.want(c.WarmUp > 0 || c.WarmUpFrom == 0, "warm-up from %v without a warm-up", c.WarmUpFrom)
	return p
}
