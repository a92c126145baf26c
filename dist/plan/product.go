package plan

import (
	"cmp"
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// Batch and Shipped are the placements in which weights travel.
const (
	Batch   = "batch"   // coded blocks of the batch are sent out, and the weights when they changed
	Shipped = "shipped" // both operands of every product are coded and sent
)

const float = 4 // bytes

// Product is what a layer computes in a step: the plain description from which
// costs follow. Numbers are of one sample; In and Out are of one group.
type Product struct {
	Name    string
	Kind    string  // Linear or Conv2d
	In, Out int     // features or channels
	Weights int     // numbers in the weight
	X, Y    int     // numbers in the input and in the output
	Flops   float64 // of the forward product
	First   bool    // the gradient of its input is not wanted
	Fixed   string  // why it has to stay local; "": it has not
	Limits  *Limits // of this layer; nil: those of the question
	Groups  int     // of a convolution; 0 means 1
	Seconds float64 // that a step's products and update take at the coordinator, if that was measured; else 0
}

// local is the time of a step at the coordinator: the products, and the update,
// which reads and writes weight and momentum and reads the gradient.
func (p Product) local(m Machines, batch int) float64 {
	if p.Seconds > 0 {
		return p.Seconds
	}
	return p.step(batch)/m.Local + p.update(m)
}

// step is the flops of a step's products.
func (p Product) step(batch int) float64 {
	products := 3.0
	if p.First {
		products = 2
	}
	return products * p.Flops * float64(batch)
}

// update is the time of the coordinator's optimiser.
func (p Product) update(m Machines) float64 { return updateBytes(float64(p.Weights)) / m.Here }

// speed is that of the coordinator on this layer's products, flop/s.
func (p Product) speed(m Machines, batch int) float64 {
	if products := p.Seconds - p.update(m); products > 0 {
		return p.step(batch) / products
	}
	return m.Local
}

// updateBytes is what an optimiser's step with momentum moves for so many weights.
func updateBytes(weights float64) float64 { return 5 * float * weights }

// UpdateSeconds is how long such a step takes with a memory of so many bytes/s.
func UpdateSeconds(weights int, memory float64) float64 {
	return updateBytes(float64(weights)) / memory
}

// MemoryOf is the memory, bytes/s, with which it takes so many seconds.
func MemoryOf(weights int, seconds float64) float64 { return updateBytes(float64(weights)) / seconds }

// round is what one coded product costs.
type round struct {
	send   float64 // bytes to a worker that computes all of its shard's product
	pieces int     // equal ones in which these come, each with its chunk; 0: all of it, before anything
	flops  float64 // of a whole shard
	back   float64 // bytes of a shard's result
	encode float64 // bytes that the coordinator reads and writes before it sends, copies too,
	decode float64 // and after the results have come
	needed int     // answers; 0: those that the code needs
}

// operands is the number of messages with operands, if nothing is sent in vain, and sent
// of their bytes.
func (r round) operands(n, k int) int {
	if r.pieces > 0 {
		return k * r.pieces
	}
	return n
}

func (r round) sent(n, k int) float64 {
	if r.pieces > 0 {
		return float64(k) * r.send
	}
	return float64(n) * r.send
}

// first is what a worker needs to begin.
func (r round) first() float64 { return r.send / float64(max(1, r.pieces)) }

// costs are those of a layer's step in a placement.
type costs struct {
	rounds  [3]round // forward, dX, dW where they are rounds
	forward bool
	dX, dW  bool
	keep    float64 // bytes of dY sent to each worker where there is no dX
	ship    float64 // bytes of the weights sent to each worker after an update
	gather  float64 // flops of a worker's own gradients: Accumulate
	apply   float64 // bytes that a worker's optimiser moves
	here    float64 // flops that stay with the coordinator
	update  float64 // bytes of the coordinator's optimiser
	storage float64 // bytes on a worker
}

// copied is what a copy reads and writes: every operand is copied once when it is handed
// over, so that the caller may go on with it.
func copied(bytes float64) float64 { return 2 * bytes }

// residentCosts are those of design: n workers hold F, a block of output features of
// the code, and R, one of input features. See the package documentation.
func residentCosts(p Product, batch int, n, k int) costs {
	b := float64(batch)
	f := blocked(p.Out, k) // a block's part of the weights, padding and all
	r := blocked(p.In, k)
	x, y := float*b*float64(p.X), float*b*float64(p.Y)
	full := p.Flops * b
	c := costs{forward: true, gather: full * f, apply: updateBytes(float64(p.Weights) * f), storage: (2 + p.kept()) * float * float64(p.Weights) * f}
	c.rounds[0] = round{send: x, flops: full * f, back: y * f, encode: copied(x), decode: y*f*float64(k) + y}
	if p.First {
		c.keep = y
		return c
	}
	c.dX = true
	c.rounds[1] = round{send: y, flops: full * r, back: x * r, encode: copied(y), decode: x*r*float64(k) + x}
	c.gather += full * r
	c.apply += updateBytes(float64(p.Weights) * r)
	c.storage += (2 + p.kept()) * float * float64(p.Weights) * r
	return c
}

// blocked is the part of total that the largest of k blocks is.
func blocked(total, k int) float64 {
	return float64(coded.Blocks(total, k).Size) / float64(total)
}

// kept is what a shard keeps for the products of one direction beside a copy of the
// weights, at most and as a multiple of it: of convolutions of 3 x 3 their transform (see
// shard.Conv2d).
func (p Product) kept() float64 {
	if p.Kind == Conv2d && p.Weights == 9*p.In*p.Out {
		return 4
	}
	return 0
}

// batchCosts are those of a batch cut into k blocks. dW is made from so many answers of
// the workers, or with 0 at the coordinator.
func batchCosts(p Product, batch int, n, k, gradient int) costs {
	b := float64(batch)
	part := blocked(batch, k)
	x, y, w := float*b*float64(p.X), float*b*float64(p.Y), float*float64(p.Weights)
	full := p.Flops * b
	blocks := float64(n) * part // of all workers
	coding := func(bytes float64) float64 { return bytes*(1+blocks) + copied(bytes*blocks) }
	c := costs{forward: true, ship: w, update: updateBytes(float64(p.Weights)), storage: w*(1+p.kept()) + part*(x+y)}
	c.rounds[0] = round{send: x * part, flops: full * part, back: y * part, encode: coding(x), decode: 2 * y}
	if !p.First {
		c.dX = true
		c.storage += w * p.kept()
		c.rounds[1] = round{send: y * part, flops: full * part, back: x * part, encode: coding(y), decode: 2 * x}
	}
	if c.here = full; gradient > 0 { // both operands are sent anew
		c.here, c.dW = 0, true
		c.rounds[2] = round{
			send: (x + y) * part, flops: full * part, back: w, encode: copied((x + y) * blocks), decode: w * float64(1+gradient), needed: gradient,
		}
		if p.First { // nobody has encoded dY
			c.rounds[2].encode += y * (1 + blocks)
		}
	}
	return c
}

// shippedCosts are those of three products whose operands both travel, coded by a
// code of loads l, each of a task.
func shippedCosts(p Product, batch int, n int, l coded.Loads) costs {
	b := float64(batch)
	x, y, w := float*b*float64(p.X), float*b*float64(p.Y), float*float64(p.Weights)
	full := p.Flops * b
	product := func(left, right, out float64) round {
		return round{
			send: left*l.A + right*l.B, flops: full * l.Compute, back: out * l.Download,
			encode: left*(1+float64(n)*l.A) + right*(1+float64(n)*l.B) + copied(float64(n)*(left*l.A+right*l.B)), decode: 2 * out,
		}
	}
	c := costs{forward: true, dX: !p.First, dW: true, update: updateBytes(float64(p.Weights)), storage: x*l.A + w*l.B}
	c.rounds = [3]round{product(x, w, y), product(y, w, x), product(x, y, w)}
	return c
}

// messages are those that a step sends and receives, if no result is sent in vain: operands,
// results of so many chunks, and what updates the workers.
func (c costs) messages(n, k, chunks int) float64 {
	var sum int
	for i, r := range c.rounds {
		if c.has(i) {
			sum += r.operands(n, k) + cmp.Or(r.needed, k)*chunks
		}
	}
	for _, sent := range []float64{c.keep, c.ship, c.apply} {
		if sent > 0 {
			sum += n
		}
	}
	return float64(sum)
}

// bytes are those that a step sends and receives, if no result is sent in vain:
// every worker gets the operands, or each chunk as many as are needed, and as many
// results come.
func (c costs) bytes(n, k int) float64 {
	sum := float64(n) * (c.keep + c.ship)
	for i, r := range c.rounds {
		if c.has(i) {
			sum += r.sent(n, k) + float64(cmp.Or(r.needed, k))*r.back
		}
	}
	return sum
}

// has tells whether a round is made.
func (c costs) has(i int) bool { return [3]bool{c.forward, c.dX, c.dW}[i] }

// minimum is the least that a step has to send and receive: the operands as they
// are, and the results without padding.
func minimum(placement string, p Product, batch, n, k, chunks int) float64 {
	workers := n
	b := float64(batch)
	x, y, w := float*b*float64(p.X), float*b*float64(p.Y), float*float64(p.Weights)
	out, in := x+y, y+x
	if p.First {
		in = y
	}
	switch placement {
	case Resident:
		return float64(n)*out + in
	case Batch:
		if p.byRows(batch, k, chunks) {
			n = k
		}
		return float64(n)/float64(k)*out + float64(workers)*w + in
	}
	all := 2 * (x + y + w) // each operand of three products, and each result
	if p.First {
		all -= y + w
	} else {
		all += x
	}
	return all + y + w
}

// byRows tells whether chunks of a coded batch are samples, with which they are sent: see
// shard.BatchCoder.ByRows.
func (p Product) byRows(batch, k, chunks int) bool {
	rows := coded.Blocks(batch, k).Size
	return p.Kind == Conv2d && rows >= chunks && p.Weights <= rows*min(p.X, p.Y)
}

// CannotBe says why a product cannot be placed in a way on n workers any k of which
// are to suffice, or "".
func (p Product) CannotBe(placement string, batch, n, k int) string {
	switch {
	case p.Fixed != "":
		return p.Fixed
	case placement == Resident:
		return CannotPlace(Layer{Name: p.Name, Kind: p.Kind, In: p.In, Out: p.Out, Weights: p.Weights, First: p.First}, Cluster{Workers: n, K: k})
	case placement == Batch && batch < k:
		return fmt.Sprintf("a batch of %d cannot be cut into %d blocks", batch, k)
	}
	return ""
}
