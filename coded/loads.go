package coded

// Loads is what one task costs, each as a fraction of the whole job without a
// code: the products of all blocks, the left operand, the right operand, and the
// outputs. A worker that keeps its coded blocks stores what it is sent.
type Loads struct {
	Compute  float64 // of the products; of the parts' gradients, for Gradients
	A, B     float64 // of the operands, sent and stored
	Download float64 // of the outputs, sent back
}

// Loads returns the largest of each cost over the tasks.
func (c *Code) Loads() Loads {
	var most Loads
	for t := range c.N() {
		l := c.TaskLoads(t)
		most.Compute, most.A = max(most.Compute, l.Compute), max(most.A, l.A)
		most.B, most.Download = max(most.B, l.B), max(most.Download, l.Download)
	}
	return most
}

// TaskLoads returns the costs of a task, 0 <= t < N. A gradient is no linear
// function of the data, so that a task of a sum of gradients costs every part
// that it combines; any other task costs its products of coded blocks.
func (c *Code) TaskLoads(t int) Loads {
	task, d := c.Task(t), c.def
	results := float64(c.Results(t))
	l := Loads{
		A:        float64(len(task.A)) / float64(d.ABlocks),
		B:        float64(len(task.B)) / float64(d.BBlocks),
		Download: results / float64(len(c.wanted)),
	}
	if d.Kind == Gradients {
		l.A = float64(len(c.Parts(t))*c.Pieces()) / float64(d.ABlocks)
		l.B, l.Compute = 0, l.A
		return l
	}
	if d.BBlocks == 1 {
		l.B = 1
	}
	var products, all int
	for _, r := range task.results() {
		products += len(r)
	}
	for _, out := range d.outputs() {
		all += len(out)
	}
	l.Compute = float64(products) / float64(all)
	return l
}

// Parts lists the blocks of the left operand that a task combines, 0 <= t < N,
// ascending: for a sum of gradients, the parts of the data that it works on.
func (c *Code) Parts(t int) []int {
	pieces := c.Pieces()
	var parts []int
	for p := range c.def.ABlocks / pieces {
		for _, u := range c.Task(t).A {
			if norm(u[p*pieces:(p+1)*pieces]) != 0 {
				parts = append(parts, p)
				break
			}
		}
	}
	return parts
}
