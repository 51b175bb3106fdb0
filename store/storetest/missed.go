package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// Missed tests that an implementation of [store.Signals] tells its listeners when they may have missed messages. open
// returns one more view on the same channels. cut ends the connections of all listeners, and keeps them from coming
// back until heal is called. An implementation that loses nothing, as [store.Memory], does not need it.
func Missed(t *testing.T, open func(t *testing.T) store.Signals, cut, heal func()) {
	t.Run("missed", func(t *testing.T) { testMissed(t, open, cut, heal) })
	t.Run("end while cut off", func(t *testing.T) { testEndWhileCutOff(t, open, cut, heal) })
}

// A gapped listener has one channel for messages and for what it may have missed, in their order.
type gapped chan string

func listenGapped(ctx context.Context, t *testing.T, s store.Signals, channel string) gapped {
	t.Helper()
	g := make(gapped, 1<<10)
	var inside atomic.Int32
	alone := func(what string) {
		if inside.Add(1) != 1 {
			t.Error("receive and missed are called at the same time")
		}
		g <- what
		inside.Add(-1)
	}
	err := s.Listen(ctx, []string{channel}, func(_ string, message []byte) { alone(string(message)) }, func() { alone("missed") })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// expect waits for the next message, or that some may have been missed.
func (g gapped) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-g:
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%q has not come", want)
	}
}

// testMissed: after each gap every listener is told once, when it listens again, and before later messages.
func testMissed(t *testing.T, open func(*testing.T) store.Signals, cut, heal func()) {
	sender := open(t)
	listeners := []gapped{listenGapped(t.Context(), t, open(t), "gap"), listenGapped(t.Context(), t, open(t), "gap")}
	for i := range 3 {
		before, after := fmt.Sprint("before ", i), fmt.Sprint("after ", i)
		publish(t, sender, "gap", before)
		for _, l := range listeners {
			l.expect(t, before)
		}
		cut()
		_ = sender.Publish(t.Context(), "gap", []byte("lost")) // it may fail: the server may be away
		for _, l := range listeners {
			if len(l) > 0 {
				t.Fatalf("%q has come to a listener that is cut off", <-l)
			}
		}
		heal()
		for _, l := range listeners {
			l.expect(t, "missed")
		}
		publish(t, sender, "gap", after)
		for _, l := range listeners {
			l.expect(t, after)
		}
	}
}

// testEndWhileCutOff: a listener whose context has ended during a gap hears nothing of its end.
func testEndWhileCutOff(t *testing.T, open func(*testing.T) store.Signals, cut, heal func()) {
	sender := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	over, still := listenGapped(ctx, t, open(t), "over"), listenGapped(t.Context(), t, open(t), "over")
	cut()
	cancel()
	heal()
	still.expect(t, "missed")
	publish(t, sender, "over", "message")
	still.expect(t, "message")
	if len(over) > 0 {
		t.Fatalf("%q has come to a listener that has ended", <-over)
	}
}
