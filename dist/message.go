package dist

import "github.com/coda-ml/coda/coded"

// protocolVersion is the version of the frames on the wire. A peer of another
// version is refused when the connection is made.
const protocolVersion = 1

// Kind says what a message is.
type Kind uint8

// The messages. C is the coordinator, W a worker; every connection is made by
// the side named first, and messages of one connection arrive in order.
const (
	KindHello    Kind = iota + 1 // C->W, W->C, W->W: who speaks, of which run
	KindPlace                    // C->W: make a shard; tensors: its state
	KindOperand                  // C->W: one operand of a round
	KindTask                     // C->W: compute one chunk of a product
	KindResult                   // W->C: the chunk; or Error
	KindCancel                   // C->W: forget the tasks of a round
	KindUpdate                   // C->W: apply an optimiser step
	KindApplied                  // W->C: the shard of a layer is at Version now
	KindDonate                   // C->W: send Weight times the shard's state to a peer
	KindReceive                  // C->W: wait for the donations of a repair, sum them
	KindDonation                 // W->W: a donation; tensors: the weighted state
	KindFetch                    // C->W: send the state of a layer
	KindState                    // W->C: the state
	KindPing                     // both ways: an empty message that wants a Pong
	KindPong
	KindBye // both ways: the sender leaves of its own will
)

// Header is the part of a message that goes through msgpack. Which fields
// mean something depends on the kind.
type Header struct {
	Version int           `msgpack:"v"`
	Kind    Kind          `msgpack:"k"`
	Run     string        `msgpack:"r,omitempty"`
	From    string        `msgpack:"f,omitempty"` // name of the sender (Hello, Donation)
	Layer   string        `msgpack:"l,omitempty"`
	Round   uint64        `msgpack:"j,omitempty"`
	Product coded.Product `msgpack:"p,omitempty"`
	Slot    int           `msgpack:"s,omitempty"`
	Chunk   int           `msgpack:"c,omitempty"`
	Step    int           `msgpack:"t,omitempty"`
	State   int           `msgpack:"n,omitempty"` // updates that the shard has applied (or must have applied)
	Keep    bool          `msgpack:"h,omitempty"`
	Weight  float64       `msgpack:"w,omitempty"`
	Addr    string        `msgpack:"a,omitempty"`
	Slots   []int         `msgpack:"d,omitempty"`
	Error   string        `msgpack:"e,omitempty"`
	Place   *coded.Layer  `msgpack:"y,omitempty"`
	Update  *coded.Update `msgpack:"u,omitempty"`
	Shapes  [][]int       `msgpack:"x,omitempty"` // of the tensors that follow
	DType   string        `msgpack:"z,omitempty"` // of the tensors: "f32"
}

// Message is a header and the tensors that follow it as raw little-endian bytes.
type Message struct {
	Header
	Tensors []coded.Tensor
}
