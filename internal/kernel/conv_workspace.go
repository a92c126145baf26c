package kernel

import "sync"

// Workspace holds the buffers of the convolutions that it is passed to, and
// grows to the largest: in the steady state nothing is allocated. One call
// uses it at a time; the zero value is ready. A nil *Workspace means a
// temporary one. A workspace for each layer saves clearing the padding again.
type Workspace struct {
	// Weights, if not 0, numbers the weights of the calls that follow: in one direction
	// (ConvForward or ConvBackwardInput) those of a number and a size are the same. What
	// has been made of them is then kept for the next call, up to 4 times their memory in
	// each direction.
	Weights uint64

	correlation correlation
	weights     weightGradient
	winograd    [2]winograd // the second one is of ConvBackwardInput with kept weights
	gradient    winogradGradient
	planar      planar
	planarDW    planarGradient
	zeros       []float32 // a bias for where there is none

	mu   sync.Mutex
	free []*convScratch
}

// convScratch is the memory of one part of a computation at a time.
type convScratch struct {
	padded   padded
	out      []float32 // rows of results
	b        []float32 // the transposed gradient of the output
	sweep    sweep
	epilogue epilogue

	v, m, band []float32 // transforms of entries and of results; lines of either
	sums       []float64
	moments    []moments
}

func (ws *Workspace) orNew() *Workspace {
	if ws == nil {
		return new(Workspace)
	}
	return ws
}

// tiles returns the memory of a product by tiles.
func (ws *Workspace) tiles(backward bool) *winograd {
	if backward && ws.Weights != 0 {
		return &ws.winograd[1]
	}
	return &ws.winograd[0]
}

func (ws *Workspace) take() *convScratch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if last := len(ws.free) - 1; last >= 0 {
		s := ws.free[last]
		ws.free = ws.free[:last]
		return s
	}
	return new(convScratch)
}

func (ws *Workspace) give(s *convScratch) {
	ws.mu.Lock()
	ws.free = append(ws.free, s)
	ws.mu.Unlock()
}

// planes is how the sweeps see some images of a tensor: planes of h x w, with
// padding around each.
type planes struct {
	h, w      int
	top, left int // padding before
	split     int // parts of a plane that its columns go to in turn; 0 counts as 1
	ph, pw    int // of a padded plane, or of a part of it
	slack     int // entries after the last plane that are read and not used
	channels  int // taken of each image, in one piece
	images    int // taken together
}

func (v planes) plane() int { return max(1, v.split) * v.ph * v.pw }

// at returns where an entry of a padded plane is.
func (v planes) at(row, col int) int {
	split := max(1, v.split)
	return (col%split*v.ph+row)*v.pw + col/split
}

// pitch returns the number of entries between images.
func (v planes) pitch() int { return v.channels * v.plane() }

// fits tells whether the padded planes are the planes themselves.
func (v planes) fits() bool {
	return v.top == 0 && v.left == 0 && v.ph == v.h && v.pw == v.w && v.slack == 0 && v.split <= 1
}

// padded is a buffer of padded planes. The padding is cleared when the layout
// changes, and stays.
type padded struct {
	layout planes
	data   []float32
}

// load copies the planes of up to v.images images; from starts at the first
// plane of the first image, and the images are step apart.
func (p *padded) load(isa *convISA, v planes, from []float32, images, step int) []float32 {
	size := v.images*v.pitch() + v.slack
	if p.layout != v || len(p.data) != size {
		p.layout = v
		p.data = grow(p.data, size)
		clear(p.data)
	}
	for i := range images {
		dst := p.data[i*v.pitch()+v.top*v.pw:]
		if v.split <= 1 {
			isa.spread(dst[v.left:], v.pw, v.plane(), from[i*step:], v.w, v.h, v.channels)
			continue
		}
		for c := range v.channels {
			splitColumns(dst[c*v.plane():], v.pw, v.ph*v.pw, v.split, v.left, from[i*step+c*v.h*v.w:], v.h, v.w)
		}
	}
	return p.data
}
