// Package storetest has the tests that an implementation of [store.Values], [store.Signals],
// [store.EventLog], [store.Buckets], [store.EventStore] or [store.TaskStore] must pass.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// Values tests an implementation. open returns one more view on the same values, as another process has
// it. wait lets so much time pass for the implementation.
func Values(t *testing.T, open func(t *testing.T) store.Values, wait func(time.Duration)) {
	t.Run("claim", func(t *testing.T) { testClaim(t, open(t), open(t)) })
	t.Run("end", func(t *testing.T) { testEnd(t, open(t), wait) })
	t.Run("update", func(t *testing.T) { testUpdate(t, open(t)) })
	t.Run("concurrent claims", func(t *testing.T) { testConcurrentClaims(t, open) })
	t.Run("concurrent updates", func(t *testing.T) { testConcurrentUpdates(t, open) })
	t.Run("bytes", func(t *testing.T) { testBytes(t, open(t)) })
}

func testClaim(t *testing.T, a, b store.Values) {
	ctx := t.Context()
	if _, err := a.Get(ctx, "claim"); !errors.Is(err, store.ErrNoValue) {
		t.Fatalf("Get of what is not there: %v, want ErrNoValue", err)
	}
	for i, want := range []bool{true, false} {
		claimed, err := []store.Values{a, b}[i].Claim(ctx, "claim", []byte{byte('a' + i)}, time.Minute)
		if err != nil || claimed != want {
			t.Fatalf("claim %d: %v, %v, want %v", i+1, claimed, err, want)
		}
	}
	expect(t, b, "claim", "a")
}

func expect(t *testing.T, v store.Values, key, want string) {
	t.Helper()
	got, err := v.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Fatalf("Get(%q): %q, %v, want %q", key, got, err, want)
	}
}

func testEnd(t *testing.T, v store.Values, wait func(time.Duration)) {
	ctx := t.Context()
	if _, err := v.Claim(ctx, "end", []byte("a"), time.Second); err != nil {
		t.Fatal(err)
	}
	if claimed, err := v.Claim(ctx, "no life", []byte("a"), 0); err != nil || !claimed {
		t.Fatalf("claim without a life: %v, %v", claimed, err)
	}
	wait(2 * time.Second)
	for _, key := range []string{"end", "no life"} {
		if _, err := v.Get(ctx, key); !errors.Is(err, store.ErrNoValue) {
			t.Fatalf("Get of %q, which has ended: %v, want ErrNoValue", key, err)
		}
	}
	if claimed, err := v.Claim(ctx, "end", []byte("b"), time.Minute); err != nil || !claimed {
		t.Fatalf("claim of what has ended: %v, %v", claimed, err)
	}
}

func testUpdate(t *testing.T, v store.Values) {
	ctx := t.Context()
	set := func(want *string, value string, life time.Duration) {
		t.Helper()
		err := v.Update(ctx, "update", func(old []byte) ([]byte, time.Duration, error) {
			switch {
			case want == nil && old != nil:
				return nil, 0, fmt.Errorf("old is %q, want none", old)
			case want != nil && (old == nil || string(old) != *want):
				return nil, 0, fmt.Errorf("old is %q, want %q", old, *want)
			}
			return []byte(value), life, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := "a", "b"
	set(nil, a, time.Minute)
	set(&a, b, time.Minute)
	own := errors.New("an error of the caller")
	err := v.Update(ctx, "update", func([]byte) ([]byte, time.Duration, error) { return []byte("c"), time.Minute, own })
	if !errors.Is(err, own) {
		t.Fatalf("Update: %v, want the error of change", err)
	}
	expect(t, v, "update", b)
	set(&b, "", 0)
	if _, err := v.Get(ctx, "update"); !errors.Is(err, store.ErrNoValue) {
		t.Fatalf("Get of what was deleted: %v, want ErrNoValue", err)
	}
}

func testConcurrentClaims(t *testing.T, open func(*testing.T) store.Values) {
	var claims atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		v := open(t)
		wg.Go(func() {
			claimed, err := v.Claim(t.Context(), "race", []byte("x"), time.Minute)
			if err != nil {
				t.Error(err)
			}
			if claimed {
				claims.Add(1)
			}
		})
	}
	wg.Wait()
	if n := claims.Load(); n != 1 {
		t.Fatalf("%d claims have succeeded, want 1", n)
	}
}

func testConcurrentUpdates(t *testing.T, open func(*testing.T) store.Values) {
	const each = 25
	var wg sync.WaitGroup
	for range 4 {
		v := open(t)
		wg.Go(func() {
			for range each {
				err := v.Update(t.Context(), "count", func(old []byte) ([]byte, time.Duration, error) {
					n := 0
					if old != nil {
						n, _ = strconv.Atoi(string(old))
					}
					return []byte(strconv.Itoa(n + 1)), time.Minute, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	expect(t, open(t), "count", strconv.Itoa(4*each))
}

// testBytes: values are any bytes, also none.
func testBytes(t *testing.T, v store.Values) {
	for key, value := range map[string]string{"empty": "", "zero": "\x00\xff\n", "large": string(make([]byte, 1<<20))} {
		err := v.Update(t.Context(), key, func([]byte) ([]byte, time.Duration, error) { return []byte(value), time.Minute, nil })
		if err != nil {
			t.Fatal(err)
		}
		expect(t, v, key, value)
	}
}

// Signals tests an implementation. open returns one more view on the same channels, as another process
// has it. [Missed] tests what it does when it loses messages.
func Signals(t *testing.T, open func(t *testing.T) store.Signals) {
	t.Run("order", func(t *testing.T) { testOrder(t, open) })
	t.Run("channels", func(t *testing.T) { testChannels(t, open) })
	t.Run("no receiver", func(t *testing.T) { testNoReceiver(t, open) })
	t.Run("end", func(t *testing.T) { testListenEnds(t, open) })
}

// An inbox has the messages that a listener got.
type inbox struct {
	mu  sync.Mutex // guards all
	all []string
	got chan struct{}
}

func listen(ctx context.Context, t *testing.T, s store.Signals, channels ...string) *inbox {
	t.Helper()
	in := &inbox{got: make(chan struct{}, 1<<10)}
	err := s.Listen(ctx, channels, func(channel string, message []byte) {
		in.mu.Lock()
		in.all = append(in.all, channel+":"+string(message))
		in.mu.Unlock()
		in.got <- struct{}{}
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// expect waits until so many messages have come, and compares them.
func (in *inbox) expect(t *testing.T, want ...string) {
	t.Helper()
	for range want {
		select {
		case <-in.got:
		case <-t.Context().Done():
			return
		case <-time.After(time.Minute):
			t.Fatal("a message has not come")
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !slices.Equal(in.all, want) {
		t.Fatalf("got %q, want %q", in.all, want)
	}
}

func publish(t *testing.T, s store.Signals, channel, message string) {
	t.Helper()
	if err := s.Publish(t.Context(), channel, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// publishUnheard publishes to a channel to which nobody listens. An implementation may know that or not.
func publishUnheard(t *testing.T, s store.Signals, channel string) {
	t.Helper()
	if err := s.Publish(t.Context(), channel, []byte("x")); err != nil && !errors.Is(err, store.ErrNoReceiver) {
		t.Fatalf("Publish to a channel to which nobody listens: %v, want nil or ErrNoReceiver", err)
	}
}

// testNoReceiver: a channel without a listener is no failure, and one with a listener of any replica has a receiver.
func testNoReceiver(t *testing.T, open func(*testing.T) store.Signals) {
	a, b := open(t), open(t)
	publishUnheard(t, a, "unheard")
	for _, listener := range []store.Signals{a, b} {
		ctx, cancel := context.WithCancel(t.Context())
		in := listen(ctx, t, listener, "unheard")
		publish(t, a, "unheard", "1")
		in.expect(t, "unheard:1")
		cancel()
	}
}

// testOrder: each listener gets the messages of a sender in order, the sender itself too.
func testOrder(t *testing.T, open func(*testing.T) store.Signals) {
	a, b := open(t), open(t)
	boxes := []*inbox{listen(t.Context(), t, a, "order"), listen(t.Context(), t, b, "order")}
	var want []string
	for i := range 100 {
		publish(t, a, "order", strconv.Itoa(i))
		want = append(want, "order:"+strconv.Itoa(i))
	}
	for _, in := range boxes {
		in.expect(t, want...)
	}
}

// testChannels: a listener gets the messages of its channels, and no others.
func testChannels(t *testing.T, open func(*testing.T) store.Signals) {
	a, b := open(t), open(t)
	in := listen(t.Context(), t, b, "one", "two")
	publishUnheard(t, a, "other")
	publish(t, a, "one", "1")
	publish(t, a, "two", "2")
	in.expect(t, "one:1", "two:2")
}

// testListenEnds: what is sent after the end of a listener's context does not reach it.
func testListenEnds(t *testing.T, open func(*testing.T) store.Signals) {
	a, b := open(t), open(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := listen(ctx, t, b, "ends")
	publish(t, a, "ends", "1")
	in.expect(t, "ends:1")
	cancel()
	still := listen(t.Context(), t, b, "ends")
	publish(t, a, "ends", "2")
	still.expect(t, "ends:2")
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.all) != 1 {
		t.Fatalf("got %q after the end", in.all[1:])
	}
}
