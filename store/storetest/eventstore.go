package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/vitrine-mcp/vitrine/store"
)

// EventStore tests an implementation of [store.EventStore]. open returns a store, which may be the same one each time.
// It must have room for 200 small events of a session, and for one of 64 KiB.
func EventStore(t *testing.T, open func(t *testing.T) store.EventStore) {
	t.Run("order", func(t *testing.T) { testStoredOrder(t, open(t)) })
	t.Run("contents", func(t *testing.T) { testStoredContents(t, open(t)) })
	t.Run("delete", func(t *testing.T) { testStoredDelete(t, open(t)) })
	t.Run("concurrent streams", func(t *testing.T) { testConcurrentStreams(t, open(t)) })
}

// session returns the name of a session, as a server makes them: 32 letters and digits.
func session(name string) string { return name + strings.Repeat("0", 32-len(name)) }

func mustStore(t *testing.T, s store.EventStore, session string, events ...store.Event) {
	t.Helper()
	for _, e := range events {
		if err := s.Append(t.Context(), session, e); err != nil {
			t.Fatalf("append event %d of stream %s: %v", e.Seq, e.Stream, err)
		}
	}
}

// expectStored expects the events of a stream that follow one.
func expectStored(t *testing.T, s store.EventStore, session, stream string, after uint64, want ...store.Event) {
	t.Helper()
	events, err := s.After(t.Context(), session, stream, after)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != len(want) {
		t.Fatalf("%d events after event %d of stream %s, want %d", len(events), after, stream, len(want))
	}
	for i, e := range events {
		if e.Stream != stream || e.Seq != want[i].Seq || e.Last != want[i].Last || string(e.Data) != string(want[i].Data) {
			t.Fatalf("got event %d %q (last: %t) of stream %s, want event %d %q (last: %t)",
				e.Seq, e.Data, e.Last, e.Stream, want[i].Seq, want[i].Data, want[i].Last)
		}
	}
}

// testStoredOrder: a stream has its own events, in order. An unknown one has none, which is no error.
func testStoredOrder(t *testing.T, s store.EventStore) {
	a, b := session("order1"), session("order2")
	mustStore(t, s, a, event("1", 1), event("1", 2), event("2", 1), event("1", 3))
	mustStore(t, s, b, event("1", 1))
	expectStored(t, s, a, "1", 0, event("1", 1), event("1", 2), event("1", 3))
	expectStored(t, s, a, "1", 2, event("1", 3))
	expectStored(t, s, a, "1", 3)
	expectStored(t, s, a, "1", 9)
	expectStored(t, s, a, "2", 0, event("2", 1))
	expectStored(t, s, a, "3", 0)
	expectStored(t, s, b, "1", 0, event("1", 1))
	expectStored(t, s, session("unknown"), "1", 0)
}

// testStoredContents: an event comes back as it was, also one without data, and the last one is known as such.
func testStoredContents(t *testing.T, s store.EventStore) {
	of := session("contents")
	for i, data := range []string{"", `{"text":"\u0000\n` + "ü" + `"}`, `"` + strings.Repeat("x", 64<<10-2) + `"`, "{}"} {
		e := store.Event{Stream: "1", Seq: uint64(i) + 1, Data: []byte(data), Last: i == 3} //nolint:gosec // small
		mustStore(t, s, of, e)
		expectStored(t, s, of, "1", e.Seq-1, e)
	}
}

// testStoredDelete: nothing is left of a deleted session, and all of the others. Deleting an unknown one is no error.
func testStoredDelete(t *testing.T, s store.EventStore) {
	a, b := session("delete1"), session("delete2")
	mustStore(t, s, a, event("1", 1), event("2", 1))
	mustStore(t, s, b, event("1", 1))
	for _, of := range []string{a, session("unknown")} {
		if err := s.Delete(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	expectStored(t, s, a, "1", 0)
	expectStored(t, s, a, "2", 0)
	expectStored(t, s, b, "1", 0, event("1", 1))
}

// testConcurrentStreams: streams of one session are written and read at the same time. What Append has stored After
// finds.
func testConcurrentStreams(t *testing.T, s store.EventStore) {
	const streams, each = 4, 50
	of := session("concurrent")
	var wg sync.WaitGroup
	for i := range streams {
		stream := fmt.Sprint(i + 1)
		wg.Go(func() {
			for seq := range uint64(each) {
				if err := s.Append(t.Context(), of, event(stream, seq+1)); err != nil {
					t.Error(err)
					return
				}
				if events, err := s.After(t.Context(), of, stream, seq); err != nil || !reflect.DeepEqual(numbers(events), []uint64{seq + 1}) {
					t.Errorf("after event %d of stream %s: %v, %v", seq, stream, numbers(events), err)
				}
			}
		})
		wg.Go(func() {
			for range each {
				events, err := s.After(t.Context(), of, stream, 0)
				if err != nil {
					t.Error(err)
				}
				for j, seq := range numbers(events) {
					if seq != uint64(j)+1 { //nolint:gosec // small
						t.Errorf("a reader of stream %s has got %v", stream, numbers(events))
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func numbers(events []store.Event) (all []uint64) {
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}
