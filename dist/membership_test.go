package dist

import (
	"context"
	"testing"
	"time"
)

func TestTwoMeet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	key := NewKey()
	a, err := Join(ctx, MembershipConfig{Name: "c", Role: RoleCoordinator, Bind: "127.0.0.1:0", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	changes, _ := a.Subscribe()
	b, err := Join(ctx, MembershipConfig{Name: "w1", Role: RoleWorker, Bind: "127.0.0.1:0", DataAddr: "127.0.0.1:4", Key: key, Seeds: []string{a.Self().GossipAddr}})
	if err != nil {
		t.Fatal(err)
	}
	for len(a.Members()) < 2 {
		<-changes
	}
	t.Log(a.Members(), b.Members())
	start := time.Now()
	if err := b.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	for len(a.Members()) == 2 {
		<-changes
	}
	t.Log(time.Since(start))
}
