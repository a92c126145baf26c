package dist

import (
	"slices"
	"testing"
)

// has tells whether a turn has been given, and takes it up.
func has(t *turn) bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

// The turn goes to the most urgent work, among equals in the order in which it was
// asked for, and to one seat at a time.
func TestEngineTurns(t *testing.T) {
	var e engine
	turns := []*turn{newTurn(), newTurn(), newTurn(), newTurn()}
	e.want(turns[0], otherOperation)
	if !has(turns[0]) {
		t.Fatal("a free engine does not give its turn")
	}
	e.want(turns[1], otherOperation)
	e.want(turns[2], urgentOperation)
	e.want(turns[3], otherOperation)
	e.want(turns[1], otherOperation)
	e.want(turns[0], urgentProduct) // it has the turn
	var order []int
	for holder := 0; ; {
		e.leave(turns[holder])
		next := slices.IndexFunc(turns, has)
		if next < 0 {
			break
		}
		order = append(order, next)
		holder = next
	}
	if want := []int{2, 1, 3}; !slices.Equal(order, want) {
		t.Errorf("turns went to %v, want %v", order, want)
	}
}

// A seat that gives up leaves nothing behind, whether it waits, has been given the turn
// or has none.
func TestEngineGivingUp(t *testing.T) {
	var e engine
	a, b, c := newTurn(), newTurn(), newTurn()
	e.leave(a)
	e.want(a, urgentProduct)
	e.want(b, urgentProduct)
	e.want(c, urgentProduct)
	e.leave(a) // given, not taken up
	e.want(c, nothing)
	if has(a) || !has(b) {
		t.Fatal("the turn did not pass on")
	}
	e.leave(b)
	if has(c) {
		t.Error("a seat that wants nothing has been given the turn")
	}
	e.want(a, otherOperation)
	if !has(a) {
		t.Error("the turn has been lost")
	}
}
