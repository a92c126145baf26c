package dist

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// byReflection encodes a header as the tags of its struct say.
func byReflection(t *testing.T, h *Header) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func byHand(t *testing.T, h *Header) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := encodeHeader(enc, h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// someHeader fills each field with some probability.
func someHeader(rng *rand.Rand) Header {
	var h Header
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		if rng.IntN(2) == 0 {
			fillField(rng, v.Field(i))
		}
	}
	return h
}

func fillField(rng *rand.Rand, f reflect.Value) {
	width := rng.IntN(64)
	switch f.Kind() {
	case reflect.Int, reflect.Int64:
		f.SetInt(int64(rng.Uint64()) >> width)
	case reflect.Uint8, reflect.Uint64:
		f.SetUint(rng.Uint64() >> width)
	case reflect.Float64:
		f.SetFloat(rng.NormFloat64() * 1e9)
	case reflect.Bool:
		f.SetBool(rng.IntN(2) == 0)
	case reflect.String:
		f.SetString(string(bytes.Repeat([]byte{'x'}, rng.IntN(300))))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		fillStruct(rng, f.Elem())
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), rng.IntN(20), 20))
		for i := range f.Len() {
			fillField(rng, f.Index(i))
		}
	case reflect.Struct:
		fillStruct(rng, f)
	}
}

func fillStruct(rng *rand.Rand, v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() {
			fillField(rng, f)
		}
	}
}

// Headers travel as the tags of the struct say, both ways: whoever reads the tags
// reads the protocol.
func TestHeaderAsItsTagsSay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		h := someHeader(rng)
		want := byReflection(t, &h)
		if got := byHand(t, &h); !bytes.Equal(got, want) {
			t.Fatalf("%+v is encoded as\n%x, want\n%x", h, got, want)
		}
		var got, same Header
		if err := decodeHeader(msgpack.NewDecoder(bytes.NewReader(want)), &got); err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		if err := msgpack.Unmarshal(want, &same); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(byReflection(t, &got), want) || !bytes.Equal(byReflection(t, &same), want) {
			t.Fatalf("decoded\n%+v, want\n%+v", got, h)
		}
	}
}

// Every field of the struct is in the table.
func TestHeaderFieldsAreAll(t *testing.T) {
	of := reflect.TypeFor[Header]()
	if of.NumField() != len(headerFields) {
		t.Fatalf("%d fields in the table, %d in the struct", len(headerFields), of.NumField())
	}
	for i := range of.NumField() {
		key, _, _ := bytes.Cut([]byte(of.Field(i).Tag.Get("msgpack")), []byte(","))
		if string(key) != headerFields[i].key {
			t.Errorf("field %s has key %q in the table, want %q", of.Field(i).Name, headerFields[i].key, key)
		}
	}
}

// Keys of a later protocol are skipped, whatever is behind them.
func TestHeaderSkipsWhatItDoesNotKnow(t *testing.T) {
	b, err := msgpack.Marshal(map[string]any{"long": []int{1, 2}, "?": map[string]int{"v": 9}, "s": 7})
	if err != nil {
		t.Fatal(err)
	}
	var h Header
	if err := decodeHeader(msgpack.NewDecoder(bytes.NewReader(b)), &h); err != nil || h.Slot != 7 || h.Version != 0 {
		t.Errorf("decoded %+v, %v, want slot 7", h, err)
	}
}

// A value of another type is an error, in every field, and so is a missing one.
func TestHeaderRefusesOtherTypes(t *testing.T) {
	for _, f := range headerFields {
		for _, value := range [][]byte{{0xc1}, {}, {0x81, 0xa1, 'a'}} {
			b := slices.Concat([]byte{0x81, 0xa1}, []byte(f.key), value)
			var h Header
			if err := decodeHeader(msgpack.NewDecoder(bytes.NewReader(b)), &h); err == nil {
				t.Errorf("field %s decodes %x", f.key, value)
			}
		}
	}
}

// A task and its answer, which are most of the messages, cost no allocation to send.
func TestHeaderAllocatesNothing(t *testing.T) {
	fw := newFrameWriter(new(bytes.Buffer), DefaultMaxBytes)
	result := &Message{
		Header:  Header{Kind: KindResult, Layer: "fc1", Round: 1 << 40, Slot: 3, Chunk: 5, Step: 1000, Flops: 1e6, Nanos: 1e6},
		Tensors: []coded.Tensor{coded.NewTensor(8, 80)},
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := fw.prepare(result); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a header", n)
	}
}
