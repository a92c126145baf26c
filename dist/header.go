package dist

import (
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// headerField is a field of a Header in msgpack. What msgpack/v5 does by reflection
// takes ten times as long as to seal a short message, and an allocation a field.
type headerField struct {
	key    string // one byte
	always bool   // it is there although it is zero
	set    func(*Header) bool
	encode func(*msgpack.Encoder, *Header) error
	decode func(*msgpack.Decoder, *Header) error
}

// headerFields are in the order of the struct and have the keys of its tags.
var headerFields = [...]headerField{
	always(intField("v", func(h *Header) *int { return &h.Version })),
	always(byteField("k", func(h *Header) *Kind { return &h.Kind })),
	textField("r", func(h *Header) *string { return &h.Run }),
	textField("f", func(h *Header) *string { return &h.From }),
	textField("o", func(h *Header) *string { return &h.Role }),
	textField("l", func(h *Header) *string { return &h.Layer }),
	idField("j", func(h *Header) *uint64 { return &h.Round }),
	byteField("p", func(h *Header) *coded.Product { return &h.Product }),
	intField("s", func(h *Header) *int { return &h.Slot }),
	intField("c", func(h *Header) *int { return &h.Chunk }),
	intField("t", func(h *Header) *int { return &h.Step }),
	intField("n", func(h *Header) *int { return &h.State }),
	field("h", func(h *Header) *bool { return &h.Keep }, (*msgpack.Encoder).EncodeBool, (*msgpack.Decoder).DecodeBool),
	floatField("w", func(h *Header) *float64 { return &h.Weight }),
	textField("a", func(h *Header) *string { return &h.Addr }),
	listField("d", func(h *Header) *[]int { return &h.Slots }, encodeInts, decodeInts),
	textField("e", func(h *Header) *string { return &h.Error }),
	otherField("y", func(h *Header) *(*coded.Layer) { return &h.Place }),
	idField("b", func(h *Header) *uint64 { return &h.Placed }),
	otherField("u", func(h *Header) *(*coded.Update) { return &h.Update }),
	idField("q", func(h *Header) *uint64 { return &h.Saved }),
	listField("i", func(h *Header) *[]Held { return &h.Held }, encodeHeld, decodeHeld),
	floatField("g", func(h *Header) *float64 { return &h.Flops }),
	intField("m", func(h *Header) *int64 { return &h.Nanos }),
	intField("B", func(h *Header) *int { return &h.Seats }),
	listField("x", func(h *Header) *[][]int { return &h.Shapes }, encodeShapes, decodeShapes),
	textField("z", func(h *Header) *string { return &h.DType }),
}

// headerKeys finds a field by its key.
var headerKeys = func() (keys [math.MaxUint8 + 1]*headerField) {
	for i := range headerFields {
		keys[headerFields[i].key[0]] = &headerFields[i]
	}
	return keys
}()

// encodeHeader writes the map that the encoder would write for the struct.
func encodeHeader(enc *msgpack.Encoder, h *Header) error {
	n := 0
	for i := range headerFields {
		if f := &headerFields[i]; f.always || f.set(h) {
			n++
		}
	}
	if err := enc.EncodeMapLen(n); err != nil {
		return err
	}
	for i := range headerFields {
		f := &headerFields[i]
		if !f.always && !f.set(h) {
			continue
		}
		if err := enc.EncodeString(f.key); err != nil {
			return err
		}
		if err := f.encode(enc, h); err != nil {
			return err
		}
	}
	return nil
}

// decodeHeader reads a map whose lengths have been checked. Keys that it does not
// know are skipped.
func decodeHeader(dec *msgpack.Decoder, h *Header) error {
	n, err := dec.DecodeMapLen()
	if err != nil {
		return err
	}
	for range n {
		key, err := dec.DecodeString()
		if err != nil {
			return err
		}
		var f *headerField
		if len(key) == 1 {
			f = headerKeys[key[0]]
		}
		if f == nil {
			err = dec.Skip()
		} else {
			err = f.decode(dec, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field is a field of a type that can be compared.
func field[T comparable](key string, at func(*Header) *T, encode func(*msgpack.Encoder, T) error, decode func(*msgpack.Decoder) (T, error)) headerField {
	var zero T
	return headerField{
		key:    key,
		set:    func(h *Header) bool { return *at(h) != zero },
		encode: func(enc *msgpack.Encoder, h *Header) error { return encode(enc, *at(h)) },
		decode: func(dec *msgpack.Decoder, h *Header) (err error) {
			*at(h), err = decode(dec)
			return err
		},
	}
}

func always(f headerField) headerField {
	f.always = true
	return f
}

func textField(key string, at func(*Header) *string) headerField {
	return field(key, at, (*msgpack.Encoder).EncodeString, (*msgpack.Decoder).DecodeString)
}

func idField(key string, at func(*Header) *uint64) headerField {
	return field(key, at, (*msgpack.Encoder).EncodeUint, (*msgpack.Decoder).DecodeUint64)
}

func floatField(key string, at func(*Header) *float64) headerField {
	return field(key, at, (*msgpack.Encoder).EncodeFloat64, (*msgpack.Decoder).DecodeFloat64)
}

func intField[T int | int64](key string, at func(*Header) *T) headerField {
	return field(key, at, func(enc *msgpack.Encoder, v T) error { return enc.EncodeInt(int64(v)) }, decodeInt[T])
}

func decodeInt[T int | int64](dec *msgpack.Decoder) (T, error) {
	v, err := dec.DecodeInt64()
	return T(v), err
}

func byteField[T ~uint8](key string, at func(*Header) *T) headerField {
	encode := func(enc *msgpack.Encoder, v T) error { return enc.EncodeUint(uint64(v)) }
	return field(key, at, encode, func(dec *msgpack.Decoder) (T, error) {
		v, err := dec.DecodeUint64()
		return T(v), err
	})
}

// otherField is left to reflection: it is in few messages.
func otherField[T any](key string, at func(*Header) **T) headerField {
	return headerField{
		key:    key,
		set:    func(h *Header) bool { return *at(h) != nil },
		encode: func(enc *msgpack.Encoder, h *Header) error { return enc.Encode(*at(h)) },
		decode: func(dec *msgpack.Decoder, h *Header) error { return dec.Decode(at(h)) },
	}
}

func listField[T any](key string, at func(*Header) *[]T, encode func(*msgpack.Encoder, []T) error, decode func(*msgpack.Decoder) ([]T, error)) headerField {
	return headerField{
		key:    key,
		set:    func(h *Header) bool { return len(*at(h)) > 0 },
		encode: func(enc *msgpack.Encoder, h *Header) error { return encode(enc, *at(h)) },
		decode: func(dec *msgpack.Decoder, h *Header) (err error) {
			*at(h), err = decode(dec)
			return err
		},
	}
}

// Those of shards are left to reflection: only a Hello has them.
func encodeHeld(enc *msgpack.Encoder, list []Held) error { return enc.Encode(list) }

func decodeHeld(dec *msgpack.Decoder) (list []Held, err error) {
	err = dec.Decode(&list)
	return list, err
}

func encodeShapes(enc *msgpack.Encoder, list [][]int) error {
	return encodeSlice(enc, list, encodeInts)
}

func decodeShapes(dec *msgpack.Decoder) ([][]int, error) { return decodeSlice(dec, decodeInts) }

func encodeInts(enc *msgpack.Encoder, list []int) error {
	return encodeSlice(enc, list, func(enc *msgpack.Encoder, v int) error { return enc.EncodeInt(int64(v)) })
}

func decodeInts(dec *msgpack.Decoder) ([]int, error) { return decodeSlice(dec, decodeInt[int]) }

func encodeSlice[T any](enc *msgpack.Encoder, list []T, each func(*msgpack.Encoder, T) error) error {
	if list == nil {
		return enc.EncodeNil()
	}
	if err := enc.EncodeArrayLen(len(list)); err != nil {
		return err
	}
	for _, v := range list {
		if err := each(enc, v); err != nil {
			return err
		}
	}
	return nil
}

// decodeSlice takes memory for as many values as there are bytes for.
func decodeSlice[T any](dec *msgpack.Decoder, each func(*msgpack.Decoder) (T, error)) ([]T, error) {
	n, err := dec.DecodeArrayLen()
	if n < 0 || err != nil {
		return nil, err
	}
	list := make([]T, n)
	for i := range list {
		if list[i], err = each(dec); err != nil {
			return nil, err
		}
	}
	return list, nil
}
