package plan

import "fmt"

// MinWeights is the number of weights from which Choose puts a layer on the
// cluster. At 65,536 weights and a batch of 64 a layer's three products take
// about 25 Mflop, which is of the order of one round trip of a coded round.
const MinWeights = 1 << 16

// Kinds of layers.
const (
	Linear = "linear"
	Conv2d = "conv2d"
)

// Placements.
const (
	Local    = "local"    // the coordinator multiplies
	Resident = "resident" // coded weights live on the workers
)

// Layer describes a layer with weights.
type Layer struct {
	Name    string
	Kind    string // Linear or Conv2d
	In, Out int    // features or channels; of a convolution those of one group
	Weights int    // number of weights, the bias apart
	First   bool   // the gradient of its input is not wanted
}

// Cluster describes the workers.
type Cluster struct {
	Workers int // N: slots of the code
	K       int // answers that suffice
}

// Choice is the placement of one layer and the reason for it.
type Choice struct {
	Layer     string
	Placement string
	Reason    string
}

// Choose returns a choice for every layer, in order: resident for the large
// layers that can be, local for the rest.
func Choose(layers []Layer, c Cluster) []Choice {
	return choose(layers, c, func(l Layer) string {
		switch {
		case l.Kind == Conv2d:
			return "a convolution's activations outweigh its weights"
		case l.Weights < MinWeights:
			return fmt.Sprintf("%d weights are fewer than %d", l.Weights, MinWeights)
		}
		return ""
	})
}

// All returns a choice for every layer, in order: resident for each layer that
// can be, whatever its size.
func All(layers []Layer, c Cluster) []Choice {
	return choose(layers, c, func(Layer) string { return "" })
}

// choose makes the layers resident that can be and against which nothing speaks.
func choose(layers []Layer, c Cluster, against func(Layer) string) []Choice {
	choices := make([]Choice, len(layers))
	for i, l := range layers {
		choices[i] = Choice{Layer: l.Name, Placement: Local}
		if why := CannotPlace(l, c); why != "" {
			choices[i].Reason = why
		} else if why := against(l); why != "" {
			choices[i].Reason = why
		} else {
			choices[i].Placement = Resident
			choices[i].Reason = fmt.Sprintf("%d weights, any %d of %d workers", l.Weights, c.K, c.Workers)
		}
	}
	return choices
}

// CannotPlace says why a layer cannot be resident on the cluster, or "".
func CannotPlace(l Layer, c Cluster) string {
	switch {
	case c.Workers == 0:
		return "there are no workers"
	case l.In < c.K && !l.First || l.Out < c.K:
		unit := "features"
		if l.Kind == Conv2d {
			unit = "channels"
		}
		return fmt.Sprintf("%d x %d %s cannot be cut into %d blocks", l.In, l.Out, unit, c.K)
	}
	return ""
}
