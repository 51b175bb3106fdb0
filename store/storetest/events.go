package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// Events tests an implementation of [store.EventLog]. open returns one more view on the same log, as another
// process has it. wait lets so much time pass for the implementation.
func Events(t *testing.T, open func(t *testing.T) store.EventLog, wait func(time.Duration)) {
	t.Run("order", func(t *testing.T) { testEventOrder(t, open(t), open(t)) })
	t.Run("fence", func(t *testing.T) { testEventFence(t, open(t), open(t)) })
	t.Run("concurrent writers", func(t *testing.T) { testConcurrentWriters(t, open) })
	t.Run("number of events", func(t *testing.T) { testEventCount(t, open(t)) })
	t.Run("bytes of events", func(t *testing.T) { testEventBytes(t, open(t)) })
	t.Run("contents", func(t *testing.T) { testEventContents(t, open(t)) })
	t.Run("delete", func(t *testing.T) { testEventDelete(t, open(t)) })
	t.Run("life", func(t *testing.T) { testEventLife(t, open(t), wait) })
}

// roomy are bounds that a test does not reach.
var roomy = store.EventBounds{Events: 1000, Bytes: 8 << 20, Life: time.Minute}

func mustAppend(t *testing.T, l store.EventLog, session, stream string, seqs ...uint64) {
	t.Helper()
	for _, seq := range seqs {
		if out, err := l.Append(t.Context(), session, event(stream, seq), roomy); err != nil || len(out) > 0 {
			t.Fatalf("append event %d of stream %s: %v, %v", seq, stream, out, err)
		}
	}
}

func event(stream string, seq uint64) store.Event {
	return store.Event{Stream: stream, Seq: seq, Data: fmt.Appendf(nil, "%s-%d", stream, seq)}
}

func mustFence(t *testing.T, l store.EventLog, session, stream string, seq uint64) {
	t.Helper()
	if _, err := l.Append(t.Context(), session, event(stream, seq), roomy); !errors.Is(err, store.ErrEventFenced) {
		t.Fatalf("append event %d of stream %s: %v, want ErrEventFenced", seq, stream, err)
	}
}

// expectEvents expects the data of the events that follow one.
func expectEvents(t *testing.T, l store.EventLog, session, stream string, after uint64, want ...string) {
	t.Helper()
	events, err := l.After(t.Context(), session, stream, after)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		if e.Stream != stream || string(e.Data) != fmt.Sprintf("%s-%d", stream, e.Seq) {
			t.Errorf("event %d of stream %s has the data %q", e.Seq, e.Stream, e.Data)
		}
		got = append(got, string(e.Data))
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("after event %d of stream %s: %q, want %q", after, stream, got, want)
	}
}

func testEventOrder(t *testing.T, a, b store.EventLog) {
	mustAppend(t, a, "order", "a.1", 1, 2)
	mustAppend(t, a, "order", "a.2", 1)
	mustAppend(t, a, "order", "a.1", 3)
	mustAppend(t, a, "order2", "a.1", 1)
	expectEvents(t, b, "order", "a.1", 0, "a.1-1", "a.1-2", "a.1-3")
	expectEvents(t, b, "order", "a.1", 2, "a.1-3")
	expectEvents(t, b, "order", "a.1", 3)
	expectEvents(t, b, "order", "a.1", 9)
	expectEvents(t, b, "order", "a.2", 0, "a.2-1")
	expectEvents(t, b, "order", "a.3", 0)
	expectEvents(t, b, "unknown", "a.1", 0)
}

// testEventFence: only the next event is appended, whatever the log has lost or another writer has added.
func testEventFence(t *testing.T, a, b store.EventLog) {
	mustFence(t, a, "fence", "a.1", 2)
	mustAppend(t, a, "fence", "a.1", 1, 2)
	mustAppend(t, b, "fence", "a.1", 3)
	mustFence(t, a, "fence", "a.1", 3)
	mustFence(t, a, "fence", "a.1", 5)
	mustFence(t, a, "fence", "a.1", 1)
	expectEvents(t, a, "fence", "a.1", 0, "a.1-1", "a.1-2", "a.1-3")
}

// testConcurrentWriters: of several writers of one event one succeeds.
func testConcurrentWriters(t *testing.T, open func(*testing.T) store.EventLog) {
	var appended atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		l := open(t)
		all.Go(func() {
			for seq := range uint64(20) {
				switch _, err := l.Append(t.Context(), "race", event("a.1", seq+1), roomy); {
				case err == nil:
					appended.Add(1)
				case !errors.Is(err, store.ErrEventFenced):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := appended.Load(); n != 20 {
		t.Fatalf("%d events were appended, want 20", n)
	}
	events, err := open(t).After(t.Context(), "race", "a.1", 0)
	if err != nil || len(events) != 20 || events[19].Seq != 20 {
		t.Fatalf("%d events, %v, want 20", len(events), err)
	}
}

// testEventCount: the oldest events of the session make room. A stream of which none is left has ended.
func testEventCount(t *testing.T, l store.EventLog) {
	b := roomy
	b.Events = 3
	add := func(stream string, seq uint64, want ...store.EvictedEvent) {
		t.Helper()
		out, err := l.Append(t.Context(), "count", event(stream, seq), b)
		if err != nil || !reflect.DeepEqual(out, want) {
			t.Fatalf("append event %d of stream %s: %v, %v, want %v", seq, stream, out, err, want)
		}
	}
	add("a.1", 1)
	add("a.1", 2)
	add("b.1", 1)
	add("a.2", 1, store.EvictedEvent{Stream: "a.1", Seq: 1})
	expectEvents(t, l, "count", "a.1", 0, "a.1-2")
	add("a.2", 2, store.EvictedEvent{Stream: "a.1", Seq: 2})
	expectEvents(t, l, "count", "a.1", 0)
	mustFence(t, l, "count", "a.1", 3)
	add("b.1", 2, store.EvictedEvent{Stream: "b.1", Seq: 1})
	add("b.1", 3, store.EvictedEvent{Stream: "a.2", Seq: 1})
	b.Events = 1
	add("b.1", 4, store.EvictedEvent{Stream: "a.2", Seq: 2}, store.EvictedEvent{Stream: "b.1", Seq: 2}, store.EvictedEvent{Stream: "b.1", Seq: 3})
	expectEvents(t, l, "count", "b.1", 0, "b.1-4")
	add("b.1", 5, store.EvictedEvent{Stream: "b.1", Seq: 4})
	expectEvents(t, l, "count", "b.1", 0, "b.1-5")
}

func testEventBytes(t *testing.T, l store.EventLog) {
	b := roomy
	b.Bytes = 2*store.EventOverhead + 20
	add := func(seq uint64, size int) ([]store.EvictedEvent, error) {
		e := store.Event{Stream: "a.1", Seq: seq, Data: []byte(strings.Repeat("x", size-4)), Note: []byte("note")}
		return l.Append(t.Context(), "bytes", e, b)
	}
	for seq := range uint64(2) {
		if out, err := add(seq+1, 10); err != nil || len(out) > 0 {
			t.Fatalf("append: %v, %v", out, err)
		}
	}
	if _, err := add(3, store.EventOverhead+21); !errors.Is(err, store.ErrEventTooLarge) {
		t.Fatalf("an event that is too large: %v", err)
	}
	out, err := add(3, 11)
	want := []store.EvictedEvent{{Stream: "a.1", Seq: 1, ByBytes: true}, {Stream: "a.1", Seq: 2, ByBytes: true}}
	if err != nil || !reflect.DeepEqual(out, want[:1]) && !reflect.DeepEqual(out, want) {
		t.Fatalf("append: %v, %v", out, err)
	}
	events, err := l.After(t.Context(), "bytes", "a.1", 0)
	if err != nil || len(events) == 0 || events[len(events)-1].Seq != 3 || len(events) > 2 {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

// testEventContents: data and notes are any bytes, also none.
func testEventContents(t *testing.T, l store.EventLog) {
	for i, data := range []string{"", "\x00\xff\n\r", strings.Repeat("x", 1<<20), "{}"} {
		e := store.Event{Stream: "a.1", Seq: uint64(i) + 1, Data: []byte(data), Note: []byte(data), Last: i == 3} //nolint:gosec // small
		if _, err := l.Append(t.Context(), "contents", e, roomy); err != nil {
			t.Fatal(err)
		}
		events, err := l.After(t.Context(), "contents", "a.1", e.Seq-1)
		if err != nil || len(events) != 1 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if got := events[0]; string(got.Data) != data || string(got.Note) != data || got.Last != e.Last || got.Seq != e.Seq {
			t.Fatalf("event %d is not what was appended", e.Seq)
		}
	}
}

// testEventDelete: the streams of a deleted session do not go on.
func testEventDelete(t *testing.T, l store.EventLog) {
	mustAppend(t, l, "delete", "a.1", 1, 2)
	mustAppend(t, l, "delete2", "a.1", 1)
	for range 2 {
		if err := l.Delete(t.Context(), "delete"); err != nil {
			t.Fatal(err)
		}
	}
	expectEvents(t, l, "delete", "a.1", 0)
	mustFence(t, l, "delete", "a.1", 3)
	expectEvents(t, l, "delete2", "a.1", 0, "a.1-1")
}

// testEventLife: each append begins the life of all events of the session anew.
func testEventLife(t *testing.T, l store.EventLog, wait func(time.Duration)) {
	b := roomy
	b.Life = 2 * time.Second
	for seq := range uint64(2) {
		if _, err := l.Append(t.Context(), "life", event("a.1", seq+1), b); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
	}
	expectEvents(t, l, "life", "a.1", 0, "a.1-1", "a.1-2")
	wait(3 * time.Second)
	expectEvents(t, l, "life", "a.1", 0)
	mustFence(t, l, "life", "a.1", 3)
}
