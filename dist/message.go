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
	KindHello    Kind = iota + 1 // C->W, W->C, W->W: who speaks, of which run, holding what
	KindPlace                    // C->W: make a shard; tensors: its state
	KindOperand                  // C->W: one operand of a round
	KindTask                     // C->W: compute one chunk of a product
	KindResult                   // W->C: the chunk; or Error; or nothing, if it was cancelled when it was done
	KindCancel                   // C->W: forget a round, or with Slots one or more of its chunks for a slot
	KindUpdate                   // C->W: apply an optimiser step
	KindApplied                  // W->C: the shard of a layer is at State now
	KindDonate                   // C->W: send the shard's state to a peer; W->C: it failed, Error
	KindReceive                  // C->W: wait for the donations of a repair, sum them
	KindDonation                 // W->W: a donation; tensors: the state, to be taken Weight times
	KindFetch                    // C->W: send the state of a layer
	KindState                    // W->C: the state
	KindPing                     // both ways: an empty message that wants a Pong
	KindPong
	KindBye    // both ways: the sender leaves of its own will; or refuses, Error
	KindKeep   // C->W: keep a copy of the shard as it is after State updates, as Saved
	KindForget // C->W: forget the shard of a layer and slot
)

// The roles that a Hello states.
const (
	RoleCoordinator = "coordinator"
	RoleWorker      = "worker"
)

// Held says that a worker holds a shard, in its Hello.
type Held struct {
	Layer  string `msgpack:"l"`
	Slot   int    `msgpack:"s"`
	State  int    `msgpack:"n"` // updates that the shard has applied
	Placed uint64 `msgpack:"p"` // the placement that it belongs to
	Source uint64 `msgpack:"j"` // the placement or the repair that it came by
	Saved  uint64 `msgpack:"k"` // if not 0, it is the copy kept under this number
}

// Header is the part of a message that goes through msgpack. Which fields
// mean something depends on the kind.
type Header struct {
	Version int           `msgpack:"v"`
	Kind    Kind          `msgpack:"k"`
	Run     string        `msgpack:"r,omitempty"`
	From    string        `msgpack:"f,omitempty"` // name of the sender (Hello, Donation)
	Role    string        `msgpack:"o,omitempty"` // of the sender (Hello)
	Layer   string        `msgpack:"l,omitempty"`
	Round   uint64        `msgpack:"j,omitempty"` // the round; or the repair, the fetch, the placement
	Product coded.Product `msgpack:"p,omitempty"`
	Slot    int           `msgpack:"s,omitempty"`
	Chunk   int           `msgpack:"c,omitempty"`
	Step    int           `msgpack:"t,omitempty"`
	State   int           `msgpack:"n,omitempty"` // updates that the shard has applied (or must have applied)
	Keep    bool          `msgpack:"h,omitempty"`
	Weight  float64       `msgpack:"w,omitempty"`
	Addr    string        `msgpack:"a,omitempty"` // where peers reach the worker (Hello, Donate)
	Slots   []int         `msgpack:"d,omitempty"` // the donors (Receive); the numbers of the tensors, none for all (Fetch); the chunks of Slot (Cancel); whose shards keep it, or else whose tasks alone need it (Operand)
	Error   string        `msgpack:"e,omitempty"`
	Place   *coded.Layer  `msgpack:"y,omitempty"`
	Placed  uint64        `msgpack:"b,omitempty"` // the placement of the layer (Place, Receive)
	Update  *coded.Update `msgpack:"u,omitempty"`
	Saved   uint64        `msgpack:"q,omitempty"` // the number of the copy to keep (Keep), or to use (Place)
	Held    []Held        `msgpack:"i,omitempty"` // shards that the worker still holds (Hello)
	Flops   float64       `msgpack:"g,omitempty"` // what the chunk (Result), or the gradients since the last report (Applied), cost, if the shard can tell
	Nanos   int64         `msgpack:"m,omitempty"` // how long that took
	Seats   int           `msgpack:"B,omitempty"` // how many slots the worker can hold (Hello of a worker)
	Shapes  [][]int       `msgpack:"x,omitempty"` // of the tensors that follow
	DType   string        `msgpack:"z,omitempty"` // of the tensors: "f32"
}

// Message is a header and the tensors that follow it as raw little-endian bytes.
type Message struct {
	Header
	Tensors []coded.Tensor

	residual float64 // of a result, as its test found it; it does not travel
}
